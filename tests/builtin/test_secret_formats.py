"""A hundred formats of secrets are found, and ordinary source has none.

The secrets are made here, valid in form, so that nobody's scanner takes this file for a leak.
"""

import random
import re
import string
import sysconfig
import zlib
from pathlib import Path

import pytest

from checkrail.builtin.redact import scrub_text
from checkrail.llm.secrets import find_secrets
from checkrail.turns import finish_steps

LETTERS = {
    "a": string.ascii_letters + string.digits,
    "b": string.ascii_letters + string.digits + "+/",
    "d": string.digits,
    "h": "0123456789abcdef",
    "l": string.ascii_lowercase + string.digits,
    "u": string.ascii_uppercase + "234567",
    "w": string.ascii_letters + string.digits + "-_",
}
GAP = re.compile(r"\{([a-z])(\d+)\}")

FORMATS = """
sk-{a48}
sk-proj-{w74}
sk-svcacct-{w64}
sk-admin-{w58}
sk-ant-api03-{w93}AA
sk-ant-admin01-{w93}
sk-ant-oat01-{w93}
sk-or-v1-{h64}
sk-lf-{h8}-{h4}-{h4}-{h4}-{h12}
sk_live_{a24}
sk_test_{a99}
rk_live_{a24}
whsec_{a32}
sk_{h48}
AKIA{u16}
ASIA{u16}
ABIA{u16}
ABSK{b132}
AIza{w35}
ya29.{w120}
GOCSPX-{w28}
1//0{w60}
github_pat_{a22}_{a59}
glpat-{w20}
gldt-{w20}
glrt-{w20}
glptt-{h40}
GR1348941{w20}
xoxb-{d12}-{d12}-{a24}
xoxp-{d12}-{d12}-{d12}-{h32}
xapp-1-A{u10}-{d13}-{h64}
https://hooks.slack.com/services/T{u8}/B{u10}/{a24}
https://discord.com/api/webhooks/{d18}/{w68}
M{a23}.G{w5}.{w38}
{d10}:AA{w33}
hf_{a34}
api_org_{a34}
gsk_{a52}
xai-{a80}
r8_{a37}
pplx-{a48}
fw_{a24}
tgp_v1_{w43}
nvapi-{w64}
csk-{l48}
pcsk_{a70}
tvly-dev-{a32}
lsv2_pt_{h32}_{h10}
jina_{a60}
e2b_{h40}
fc-{h32}
re_{a8}_{a24}
pypi-AgEIcHlwaS5vcmc{w80}
rubygems_{h48}
oy2{l43}
CLOJARS_{l60}
dckr_pat_{w27}
SG.{w22}.{w43}
key-{h32}
{h32}-us12
xkeysib-{h64}-{a16}
SK{h32}
sq0atp-{w22}
sq0csp-{w43}
shpat_{h32}
shpss_{h32}
shippo_live_{h40}
rzp_live_{a14}
EZAK{a54}
access-production-{h8}-{h4}-{h4}-{h4}-{h12}
dop_v1_{h64}
HRKU-{h8}-{h4}-{h4}-{h4}-{h12}
nfp_{a36}
sbp_{h40}
sb_secret_{w31}
pscale_tkn_{w43}
LTAI{a20}
AKID{a32}
lin_api_{a40}
ntn_{a46}
secret_{a43}
figd_{w40}
ATATT3{w180}={h8}
ATBB{a32}
pat{a14}.{h64}
pat-na1-{h8}-{h4}-{h4}-{h4}-{h12}
PMAK-{h24}-{h34}
dapi{h32}
hvs.{w90}
{a14}.atlasv1.{w67}
pul-{h40}
dp.st.prd.{a43}
dt0c01.{u24}.{u64}
glsa_{a32}_{h8}
glc_{b60}
NRAK-{u27}
sntrys_{a120}
phx_{a43}
bkua_{h40}
squ_{h40}
sdk-{h8}-{h4}-{h4}-{h4}-{h12}
duffel_live_{w43}
sha256~{w43}
AGE-SECRET-KEY-1{u58}
{a3}8Q~{w34}
eyJ{a30}.eyJ{a60}.{w43}
Bearer {w40}
Authorization: Basic {b24}
postgres://app:{a16}@db.internal/app
DefaultEndpointsProtocol=https;AccountName=a;AccountKey={b86}==
DB_PASSWORD={a12}
AWS_SECRET_ACCESS_KEY={b40}
"client_secret": "{w40}"
api_key = '{a32}'
password: {a12}7
""".splitlines()[1:]


def crc(body: str) -> str:
    number, digits = zlib.crc32(body.encode()), ""
    alphabet = string.digits + string.ascii_uppercase + string.ascii_lowercase
    for _ in range(6):
        number, digit = divmod(number, 62)
        digits = alphabet[digit] + digits
    return digits


def made(form: str, seed: int) -> tuple[str, str]:
    """Return a secret of a format, and its longest random part."""
    chance = random.Random(f"{form} {seed}")
    parts: list[str] = []

    def fill(gap: re.Match[str]) -> str:
        parts.append("".join(chance.choices(LETTERS[gap[1]], k=int(gap[2]))))
        return parts[-1]

    return GAP.sub(fill, form), max(parts, key=len)


def test_there_are_a_hundred():
    assert len({*FORMATS}) >= 100


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_is_found_wherever_it_stands(form):
    for seed in range(20):
        secret, part = made(form, seed)
        for around in (
            "{}",
            "see {} there",
            '{{"a": "{}"}}',
            "line\\n{}\\nline",
            "x = '{}'\n",
            "({})",
            ".{}",
        ):
            assert part not in scrub_text(around.format(secret), ["secrets"]), (around, secret)


@pytest.mark.parametrize("prefix", ["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "npm_"])
def test_a_checksum_tells_a_token_that_looks_like_none(prefix):
    body = "a" * 30
    assert scrub_text(prefix + body + crc(body)) == "[redacted:secrets]"
    assert scrub_text(prefix + body + "000000") == prefix + body + "000000"
    body = made("{a30}", 1)[0]
    assert scrub_text(prefix + body + crc(body)) == "[redacted:secrets]"


@pytest.mark.parametrize(
    "text",
    [
        "webhook_secret=webhook_secret, token=auth_token, api_key=resolved_api_key_2",
        "access_key=aws_secret_key or session_token = aws_session_token",
        'AUTH_TOKEN = "ANTHROPIC_AUTH_TOKEN"; SECRET_KEY=os.environ["SECRET_KEY"]',
        'password = "Enter your password"; secret: "a text that says what it is"',
        'create_engine("postgresql://scott:tiger@localhost/test", "mysql://user:password@host/db")',
        "https://jo%40email.com:a%20secret@host, sqlite://:passphrase@/x, Bearer account-b",
        "MLKEM1024P384PrivateKey = rust_openssl.hpke.MLKEM1024P384PrivateKey",
        "API_KEY=your-api-key-here TOKEN=<your token> SECRET=changeme123 PASSWORD=xxxxxxxx1",
        "sk-your-key-goes-right-here-ok",
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "sk-ant-api03-... and sk-proj-abcdefghijklmnopqrstuvwxyz and key-value-pairs-of-something",
        "token='{masked}' secret=\"%(secret)s\" api_key=f'{key}1234567' password=$(cat file1)",
        "pat-na1-name-of-a-table-in-the-data-base-here",
        "re_compile_something_long api-version-of-this",
        "the_token: Annotated[str, Depends(oauth2_scheme)], key: Callable[[T1], T2]",
        "def unix_getpass(prompt='Password: ', stream=None): return input(\"Password: \").strip()",
        "def f(private_key: Ed25519PrivateKey, private_key: PKCS7PrivateKeyTypes): ...",
        'StaticCredentials(token="token123"); _MARK = "-----BEGIN RSA PRIVATE KEY-----"',
        '# "-----BEGIN PRIVATE KEY-----...",\n# "-----BEGIN EC PRIVATE KEY-----..."',
        ".. _refresh token: https://tools.ietf.org/html/rfc6749#section-6",
        'eos_token="<|im_end1|>" secret_key_base64_v2 = decode_key_v2(value1)',
    ],
)
def test_placeholders_and_names_are_left_alone(text):
    assert scrub_text(text, ["secrets"]) == text


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("don't use the password: 'hunter22, or so'", "hunter22, or so"),
        ('{"password": ",hunter22"}', ",hunter22"),
        ("password=MyPassword2024 PASSWORD=password12", "MyPassword2024"),
        ("password='password12'", "password12"),
        ("token = 'token-8f7a6d5e4c3b2a1'", "token-8f7a6d5e4c3b2a1"),
        ("token: https://tools.net/d?t=8f7a6d5e4c3b2a1", "8f7a6d5e4c3b2a1"),
        ("token: https://tools.net/8f7a6d5e4c3b2a18f7a6d5e4c", "8f7a6d5e4c3b2a18f7a6d5e4c"),
        ("-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG\n", "MIIEvQIBADANBgkqhkiG"),
        ("-----BEGIN PRIVATE KEY-----\\nMIIEvQIBADANBgkqhkiG", "MIIEvQIBADANBgkqhkiG"),
    ],
)
def test_what_is_near_to_those_is_found(text, secret):
    assert secret not in scrub_text(text, ["secrets"])


def test_ordinary_source_has_next_to_none():
    """At most one hit in 10 MB of Python's own library and of packages that are installed here."""
    paths = sysconfig.get_paths()
    library = Path(paths["stdlib"]).glob("**/*.py")
    library = {file for file in library if "site-packages" not in file.parts}
    packages = sorted(Path(paths["purelib"]).glob("**/*.py"))[::3]
    size, found = 0, []
    for file in library.union(packages):
        text = file.read_text(encoding="utf-8", errors="replace")
        spans = finish_steps(find_secrets(text))
        found += [f"{file}: {text[start:end]}" for start, end in spans]
        size += len(text)
    assert size >= 30_000_000
    assert len(found) <= size / 10_000_000, found
