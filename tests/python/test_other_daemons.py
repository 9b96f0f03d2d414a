"""Daemons of other versions, met by a process that has a gRPC of its own."""

import pytest
from kiln import service
from processes import answer_of, start

# Serves what a daemon of another version may say, with PyTorch's, gRPC's and Kiln's libraries in
# one process, and compiles.
PROGRAM = """
import json, os, sys, tempfile, warnings
from concurrent import futures
import grpc, torch, torch.nn.functional as F
import kiln
from kiln import wire

kind = sys.argv[1]
MISS, HIT = 2, 1
# DescribeReply: a later version, and a key of its own.
described = wire.text(1, "99.0.0") + wire.data(2, bytes(range(32)))
# SignedArtifact: bytes that nobody here can read, signed by somebody.
foreign = wire.data(1, b"an artifact of version 99")
foreign += wire.data(3, b"s" * 64) + wire.data(4, b"k" * 8)
answers = {
    "knows no call": {},
    "has lost a call": {"Describe": described},
    "has artifacts of its own": {
        "Describe": described,
        "Lookup": wire.uint(1, HIT) + wire.data(2, foreign),
    },
    "says what nobody can read": {"Describe": b"\\xff\\xff\\xff", "Lookup": b"\\xff"},
    "knows an option less": {
        "Describe": described + wire.data(3, bytes.fromhex("c0ffee00")),
        "Lookup": wire.uint(1, MISS),
    },
}[kind]
asked = []

def refuse_option(request, context):
    context.set_trailing_metadata((("kiln-reason", "BAD_OPTION"),))
    words = "options.artifact: field 13 is not known to this build"
    context.abort(grpc.StatusCode.INVALID_ARGUMENT, words)

class Daemon(grpc.GenericRpcHandler):
    def service(self, call):
        name = call.method.rpartition("/")[2]
        asked.append(name)
        if kind == "knows an option less" and name == "Compile":
            return grpc.unary_stream_rpc_method_handler(refuse_option)
        if name not in answers:
            return None  # UNIMPLEMENTED
        return grpc.unary_unary_rpc_method_handler(lambda request, context: answers[name])

folder = tempfile.mkdtemp(prefix="kiln-")
server = grpc.server(futures.ThreadPoolExecutor(4), handlers=[Daemon()])
server.add_insecure_port(f"unix:{folder}/kilnd.sock")
server.start()
os.environ["KILN_ADDR"] = f"unix:{folder}/kilnd.sock"
x = torch.randn(6, 8, requires_grad=True)
fn = lambda x: F.gelu(x).sum(-1)
said = ""
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    try:
        got = torch.compile(fn, backend="kiln")(x)
        got.sum().backward()  # torch 2.9 may compile it no sooner
        torch.testing.assert_close(got, fn(x))
    except kiln.KilnError as error:
        said = str(error)
with grpc.insecure_channel(f"unix:{folder}/kilnd.sock") as channel:  # still its own
    try:
        channel.unary_unary("/kiln.wire.CompileService/Nothing")(b"")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.UNIMPLEMENTED
told = [str(warning.message) for warning in seen if "kiln" in str(warning.message)]
print(json.dumps({"said": said, "told": told, "asked": asked, **kiln.counters}))
server.stop(None)
"""


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ("knows no call", "UNIMPLEMENTED"),
        ("has lost a call", "UNIMPLEMENTED"),
        ("has artifacts of its own", "ARTIFACT_"),
        ("says what nobody can read", "UNIMPLEMENTED"),
        ("knows an option less", "BAD_OPTION: kilnd 99.0.0, build c0ffee00: "),
    ],
)
def test_beside_a_daemon_of_another_version_the_own_worker_compiles_after_a_warning(
    tmp_path, kind, word
):
    done, _ = answer_of(start(PROGRAM, kind, TORCHINDUCTOR_CACHE_DIR=str(tmp_path)))
    assert "Describe" in done["asked"]
    assert done["said"] == ""
    assert done["local_compiles"] == done["compiles"] == 2
    assert len(done["told"]) == 1, done["told"]
    assert "own worker" in done["told"][0] and word in done["told"][0]
    assert f"(here: kiln {service.version()}, build " in done["told"][0]
