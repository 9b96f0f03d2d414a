"""A GPU that another part of the program has reset: a call of a device graph is an error. On a stand-in
for the driver, and for the GPU; graph_trees/test_failures.py has the same on a GPU."""

import shutil
import subprocess
import textwrap

from processes import HERE, answer_of, start

DRIVER = """
static unsigned long long id = 1;
static int retained;
int cuDeviceGet(int* device, int ordinal) { *device = ordinal; return 0; }
int cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = &id + device;
  ++retained;
  return 0;
}
int cuDevicePrimaryCtxRelease_v2(int device) { return --retained < 0; }
int cuCtxGetId(void* context, unsigned long long* found) { *found = id; return 0; }
void reset(void) { ++id; }
int kept(void) { return retained; }
"""

PROGRAM = """
    import ctypes, json, sys
    driver = ctypes.CDLL(sys.argv[1])
    import torch
    torch.Tensor.is_cuda = property(lambda tensor: True)
    from graph_stand_in import StandIn, Tree, values
    device = StandIn()
    device.index = 0
    tree = Tree(device)
    function = tree.add(lambda inputs: [inputs.pop() + 1], inputs=1)

    def call():
        device.step()
        (y,) = function([torch.ones(4)])
        return values(y).tolist() if tree.native.report()["recordings"] else None

    found = [call() for _ in range(4)]
    driver.reset()
    said = []
    for _ in range(2):
        try:
            call()
        except RuntimeError as error:
            said.append(str(error))
    counts = tree.native.report()
    tree.native.shutdown()
    print(json.dumps({"found": found, "said": said, "replays": counts["replays"], "kept": driver.kept()}))
"""


def test_a_call_after_it_is_an_error_and_replays_nothing(tmp_path):
    source, library = tmp_path / "driver.c", tmp_path / "libcuda.so.1"
    source.write_text(DRIVER)
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    command = [compiler, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", str(source), "-o", str(library)]
    subprocess.run(command, check=True)
    answer, _ = answer_of(start(textwrap.dedent(PROGRAM), str(library), **HERE))
    assert answer["found"][1:] == [[2.0] * 4] * 3
    assert len(answer["said"]) == 2
    assert all("has reset the device" in text for text in answer["said"])
    assert (answer["replays"], answer["kept"]) == (2, 0)
