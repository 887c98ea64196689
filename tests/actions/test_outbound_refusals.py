import socket
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkrail.actions import ActionError
from checkrail.actions.addresses import V4, V6, special_kind
from checkrail.actions.destinations import parse_destination
from checkrail.actions.outbound import Outbound, OutboundRefused

PUBLIC = ["8.8.8.8", "93.184.216.34", "172.32.0.1", "2606:4700::1111", "2001:4860:4860::8888"]


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com",
        "HTTPS://Example.COM:8443/hook?x=1#part",
        "https://example.com.",
        "https://bücher.example/ü?q=ü",
        "https://8.8.8.8/",
        "https://[2606:4700::1111]:444/",
        "https://[::ffff:8.8.8.8]/",
        "https://[64:ff9b::8.8.8.8]/",
        "https://localhost.example.com",
        "https://10.example.com",
    ],
)
def test_public_places_over_https_pass(url):
    Outbound().check(url)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://example.com", "is not https"),
        ("http://8.8.8.8", "is not https"),
        ("ftp://example.com", "scheme is ftp"),
        ("file:///etc/passwd", "scheme is file"),
        ("example.com/hook", "not a whole one"),
        ("//example.com", "not a whole one"),
        ("", "not a whole one"),
        ("https:///hook", "no proper host"),
        ("https://?x", "no proper host"),
        ("https://:443/", "no proper host"),
        ("https://ann:secret@example.com", "user name or password"),
        ("https://@example.com", "user name or password"),
        ("https://example.com:0/", "port is 0"),
        ("https://example.com:65536/", "port is 65536"),
        ("https://example.com:4a/", "no proper host"),
        ("https://example.com:-1/", "no proper host"),
        ("https://example.com:\u0664\u0664/", "no proper host"),
        ("https://example.com\\@10.0.0.1/", "backslash"),
        ("https://exam ple.com", "space"),
        ("https://example.com/\r\nx: y", "space"),
        ("https://exam\u200bple.com", "cannot be seen"),
        ("https://exam\u00adple.com", "cannot be seen"),
        ("https://ex%61mple.com", "no host name"),
        ("https://example..com", "no host name"),
        ("https://-example.com", "no host name"),
        (f"https://{'a' * 64}.com", "no host name"),
        (f"https://{'a.' * 127}com", "no host name"),
        ("https://[::1", "no proper host"),
        ("https://[fe80::1%25eth0]/", "no proper host"),
        ("https://[1:2]/", "no IPv6 address"),
        ("https://\u24dbocalhost", "letters that no host name has"),
        (f"https://example.com/{'a' * 8192}", "longer than 8192"),
    ],
)
def test_what_is_no_proper_url_is_refused(url, problem):
    with pytest.raises(OutboundRefused, match=problem):
        Outbound().check(url)


@pytest.mark.parametrize(
    ("host", "kind"),
    [
        ("localhost", "this machine itself"),
        ("LOCALHOST.", "this machine itself"),
        ("api.localhost", "this machine itself"),
        ("localhost\u3002", "this machine itself"),
        ("127.0.0.1", "this machine itself"),
        ("127.0.0.1.", "this machine itself"),
        ("127\u30020\uff0e0\uff611", "this machine itself"),
        ("[::1]", "this machine itself"),
        ("[0:0:0:0:0:0:0:1]", "this machine itself"),
        ("10.1.2.3", "private"),
        ("172.31.255.255", "private"),
        ("192.168.0.1", "private"),
        ("[fd00:ec2::254]", "metadata"),
        ("[fd20:ce::254]", "metadata"),
        ("[::ffff:100.100.100.200]", "metadata"),
        ("100.100.100.200", "metadata"),
        ("100.100.100.201", "inner network"),
        ("169.254.169.254", "metadata"),
        ("168.63.129.16", "metadata"),
        ("[fe80::1]", "metadata"),
        ("0.0.0.0", "reserved"),
        ("0.1.2.3", "reserved"),
        ("255.255.255.255", "reserved"),
        ("192.0.0.192", "reserved"),
        ("198.18.0.1", "reserved"),
        ("[::]", "reserved"),
        ("[fec0::1]", "reserved"),
        ("[64:ff9b:1::a00:1]", "reserved"),
        ("224.0.0.1", "multicast"),
        ("[ff02::1]", "multicast"),
        ("[::ffff:127.0.0.1]", "this machine itself"),
        ("[::FFFF:7F00:1]", "this machine itself"),
        ("[::127.0.0.1]", "reserved"),
        ("[::ffff:0:127.0.0.1]", "reserved"),
        ("[64:ff9b::169.254.169.254]", "tunnel"),
        ("[2002:7f00:1::]", "tunnel"),
        ("[2001:0:4136:e378:8000:63bf:80ff:fffe]", "reserved"),
        ("[2606:4700::5efe:10.0.0.1]", "tunnel"),
        ("[2606:4700::200:5efe:10.0.0.1]", "tunnel"),
    ],
)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_inner_places_are_refused(scheme, host, kind):
    with pytest.raises(OutboundRefused, match=kind):
        Outbound().check(f"{scheme}://{host}/hook")


@pytest.mark.parametrize(
    "host",
    [
        "2130706433",
        "0x7f000001",
        "017700000001",
        "127.1",
        "127.0.1",
        "0X7F.0.0.1",
        "0177.0.0.1",
        "127.0.0.01",
        "1.2.3.4.5",
        "256.1.1.1",
        "example.0x",
        "8.8.2056",
        "134744072",
    ],
)
def test_numbers_in_unusual_spellings_are_refused_whatever_they_mean(host):
    with pytest.raises(OutboundRefused, match="unusual spelling"):
        Outbound(dev=True).check(f"https://{host}/")


def inside(networks):
    return st.sampled_from(list(networks)).flatmap(
        lambda net: st.integers(int(net[0]), int(net[-1])).map(type(net[0]))
    )


PARTS = [(8, 8, 8, 8), (8, 8, 16), (8, 24), (32,)]


@st.composite
def v4_spellings(draw, address):
    """All that inet_aton reads as this address."""
    texts, shift = [], 32
    for width in draw(st.sampled_from(PARTS)):
        shift -= width
        part = (int(address) >> shift) & ((1 << width) - 1)
        texts.append(
            draw(st.sampled_from(["{}", "0{:o}", "000{:o}", "0x{:x}", "0X{:X}"])).format(part)
        )
    dot = draw(st.sampled_from([".", ".", "\u3002", "\uff0e", "\uff61"]))
    return dot.join(texts) + draw(st.sampled_from(["", "."]))


def v6_carriers(address):
    """The IPv6 addresses that lead to this IPv4 one."""
    number = int(address)
    yield from (prefix | number for prefix in (0, 0xFFFF << 32, 0xFFFF << 48, 0x64FF9B << 96))
    yield 0x64FF9B0001 << 80 | number
    yield 0x2002 << 112 | number << 80
    yield 0x20010000 << 96 | (number ^ 0xFFFFFFFF)
    yield 0x20010000 << 96 | number << 64 | 0xFFFFFFFF
    yield from (0x26064700 << 96 | iid << 32 | number for iid in (0x5EFE, 0x02005EFE))


@st.composite
def v6_spellings(draw, address):
    text = draw(st.sampled_from([address.compressed, address.exploded]))
    if draw(st.booleans()):
        head = address.exploded.rsplit(":", 2)[0]
        text = f"{head}:{IPv4Address(int(address) & 0xFFFFFFFF)}"
    return f"[{draw(st.sampled_from([text, text.upper()]))}]"


@st.composite
def inner_hosts(draw):
    """A host in some spelling that leads to an address that is not public."""
    if draw(st.integers(0, 3)) == 0:
        return draw(v6_spellings(draw(inside(V6))))
    address = draw(inside(V4))
    if draw(st.booleans()):
        return draw(v4_spellings(address))
    carriers = [IPv6Address(number) for number in v6_carriers(address)]
    return draw(v6_spellings(draw(st.sampled_from(carriers))))


@given(inner_hosts(), st.sampled_from(["", ":8443"]), st.sampled_from(["http", "https"]))
def test_no_spelling_of_an_inner_address_passes(host, port, scheme):
    with pytest.raises(OutboundRefused):
        Outbound().check(f"{scheme}://{host}{port}/")


@given(st.text("0123456789abfxX.:[]@%\uff11\u3002", max_size=24))
def test_a_host_that_passes_and_is_a_number_to_the_system_is_a_public_address(host):
    try:
        where = parse_destination(f"https://{host}/")
        Outbound().check(f"https://{host}/")
    except OutboundRefused:
        return
    try:
        number = IPv4Address(socket.inet_aton(where.host))
    except OSError:
        return
    assert where.host == str(number)
    assert special_kind(number) is None


@given(st.ip_addresses().filter(lambda address: address.is_private or address.is_multicast))
def test_what_python_takes_for_private_is_not_public(address):
    assert special_kind(address)


@pytest.mark.parametrize("text", PUBLIC)
def test_public_addresses_are_public(text):
    assert special_kind(ip_address(text)) is None


@pytest.mark.parametrize(
    ("allow", "urls"),
    [
        (["hooks.internal"], ["http://hooks.internal", "https://HOOKS.internal.:9/x"]),
        (["Hooks.Internal."], ["http://hooks.internal"]),
        (["hooks.internal:8080"], ["http://hooks.internal:8080/"]),
        (["*.corp.example"], ["http://a.corp.example", "http://a.b.corp.example:81"]),
        (["bücher.example"], ["http://xn--bcher-kva.example"]),
        (["localhost:9000"], ["http://localhost:9000"]),
        (["10.0.0.0/8"], ["http://10.1.2.3", "https://10.1.2.3:9", "http://[::ffff:10.0.0.1]"]),
        (["10.0.0.7:81"], ["http://10.0.0.7:81"]),
        (["fd00::/8"], ["http://[fd00::1]"]),
        (["[fd00::1]:82"], ["http://[fd00::1]:82"]),
        (["169.254.169.254"], ["http://169.254.169.254"]),
        (["127.0.0.0/8"], ["http://localhost:81"]),
        (["10.0.0.0/8"], ["http://maybe.in.it"]),
    ],
)
def test_what_is_listed_may_be_inner_and_plain(allow, urls):
    for url in urls:
        Outbound(allow).check(url)


@pytest.mark.parametrize(
    ("allow", "url"),
    [
        (["hooks.internal"], "http://a.hooks.internal"),
        (["hooks.internal:8080"], "http://hooks.internal:8081"),
        (["hooks.internal:8080"], "http://hooks.internal"),
        (["*.corp.example"], "http://corp.example"),
        (["*.corp.example"], "http://evilcorp.example"),
        (["10.0.0.0/8"], "http://11.0.0.1"),
        (["10.0.0.7:81"], "http://10.0.0.7"),
        (["10.0.0.0/8"], "https://localhost"),
        (["::1"], "https://[::2]"),
    ],
)
def test_what_is_not_listed_stays_refused(allow, url):
    with pytest.raises(OutboundRefused):
        Outbound(allow).check(url)


@pytest.mark.parametrize(
    "entry",
    [
        "",
        "*",
        "*.",
        "*.*.example",
        "https://hooks.internal",
        "hooks.internal/x",
        "ann@host",
        "a:b",
        "a:70000",
        "127.1",
        "10.0.0.5/8",
    ],
)
def test_an_entry_that_is_no_place_is_told(entry):
    with pytest.raises(ActionError, match=r"in outbound\.allow is no host and no network\. Write"):
        Outbound([entry])


@pytest.mark.parametrize("host", ["localhost", "app.localhost", "127.0.0.1", "127.9.9.9", "[::1]"])
def test_in_development_this_machine_may_be_called(host):
    Outbound(dev=True).check(f"http://{host}:8000/hook")


@pytest.mark.parametrize(
    "url", ["http://example.com", "http://0.0.0.0", "https://10.0.0.1", "https://169.254.169.254"]
)
def test_in_development_nothing_else_may(url):
    with pytest.raises(OutboundRefused):
        Outbound(dev=True).check(url)


def test_a_refusal_says_what_to_do_and_keeps_the_path_to_itself():
    with pytest.raises(OutboundRefused) as caught:
        Outbound().check("https://10.0.0.1:8443/services/T0/s3cret?key=s3cret")
    assert str(caught.value) == (
        "a request to https://10.0.0.1:8443 was refused, for 10.0.0.1 is a private network. "
        "If it is meant, add 10.0.0.1 to outbound.allow"
    )
    assert "s3cret" not in repr(parse_destination("https://example.com/s3cret"))


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://a.b", "/"),
        ("https://a.b?x=1", "/?x=1"),
        ("https://a.b/c/ü?q=%20&r=é#part", "/c/%C3%BC?q=%20&r=%C3%A9"),
        ('https://a.b/<>{}|^`"', "/%3C%3E%7B%7D%7C%5E%60%22"),
    ],
)
def test_path_and_query_are_escaped_once(url, target):
    assert parse_destination(url).target == target
