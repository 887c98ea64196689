"""Measure Checkrail against bare loops and its peers; exit 1 if a bar is missed."""

import argparse
import subprocess
import sys
from pathlib import Path

import report
from bars import judge, judge_gateway, judge_loop, judge_server
from environments import LOOP_PEERS, PEERS, measure_peer
from gateway import measure_gateway
from processes import measured_by
from server import measure_server
from startup import startup_times


def main() -> int:
    options = parse()
    try:
        results = measure(
            with_peers=options.peers, with_server=options.server, with_gateway=options.gateway
        )
    except subprocess.CalledProcessError as error:
        sys.exit(error.stderr)
    print(options.show(results))
    return 0 if all(bar.held for bar in results.bars) else 1


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    shape = parser.add_mutually_exclusive_group()
    for flag, show in (("--json", report.as_json), ("--markdown", report.as_markdown)):
        shape.add_argument(flag, dest="show", action="store_const", const=show)
    parser.add_argument("--no-peers", dest="peers", action="store_false")
    parser.add_argument("--no-server", dest="server", action="store_false")
    parser.add_argument("--no-gateway", dest="gateway", action="store_false")
    parser.set_defaults(show=report.as_text)
    return parser.parse_args()


def measure(*, with_peers: bool, with_server: bool, with_gateway: bool) -> report.Results:
    startup_ms = startup_times()
    engine = measured_by(Path(sys.executable), "engine").sections
    loop = measured_by(Path(sys.executable), "agent_loop").sections
    server = measure_server(with_peers=with_peers) if with_server else None
    gateway = measure_gateway(with_peers=with_peers) if with_gateway else None
    return report.Results(
        **engine,
        **loop,
        peers=[measure_peer(peer) for peer in PEERS if with_peers],
        loop_peers=[measure_peer(peer) for peer in LOOP_PEERS if with_peers],
        server=server,
        gateway=gateway,
        startup_ms=startup_ms,
        bars=[
            *judge(**engine, startup_ms=startup_ms),
            *judge_loop(loop["loops"], loop["hooked_wall"]),
            *(judge_server(server) if server else ()),
            *(judge_gateway(gateway) if gateway else ()),
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
