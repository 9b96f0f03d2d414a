#include "tests/runtime/plan_graphs/plan_graphs_rig.h"

#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

constexpr char kVector[] =
    R"(dtype: DTYPE_FLOAT32 sizes { value: 4 } strides { value: 1 })";

std::string Input() {
  return absl::StrCat("inputs { tensor { ", kVector, " } } ");
}
std::string View(int buffer) {
  return absl::StrCat("{ buffer: ", buffer, " ", kVector, " }");
}
std::string CopyStep(int from, int to) {
  return absl::StrCat("steps { copy { from ", View(from), " to ", View(to),
                      " } } ");
}

}  // namespace

std::string CopyPlan() {
  return absl::StrCat(Input(), R"(
    buffers { kind: KIND_INPUT index: 0 name: "x" bytes { value: 16 } }
    buffers { kind: KIND_OWN name: "t" bytes { value: 16 } }
    buffers { kind: KIND_OUTPUT name: "y" bytes { value: 16 } } )",
                      CopyStep(0, 1), CopyStep(1, 2), "outputs { view ",
                      View(2), " }");
}

std::string TwoResultsPlan() {
  return absl::StrCat(Input(), R"(
    buffers { kind: KIND_INPUT index: 0 name: "x" bytes { value: 16 } }
    buffers { kind: KIND_OUTPUT name: "y" bytes { value: 16 } }
    buffers { kind: KIND_OUTPUT name: "z" bytes { value: 16 } } )",
                      CopyStep(0, 1), CopyStep(0, 2), R"(
    steps { fill { to { buffer: 2 dtype: DTYPE_FLOAT32 sizes { value: 1 } strides { value: 1 } }
      bits: 0x40e00000 } } )",
                      "outputs { view ", View(1), " } outputs { view ", View(2),
                      " } outputs { view ", View(2), " }");
}

std::string MutatingPlan() {
  return absl::StrCat("inputs { mutated: true tensor { ", kVector, R"( } }
    buffers { kind: KIND_INPUT index: 0 name: "x" bytes { value: 16 } }
    steps { fill { to { buffer: 0 dtype: DTYPE_FLOAT32 sizes { value: 1 } strides { value: 1 } }
      bits: 0x40e00000 } }
    outputs { view )",
                      View(0), " }");
}

Tensor Vector(float first, int64_t elements) {
  std::vector<float> values(elements);
  std::iota(values.begin(), values.end(), first);
  Tensor tensor = FloatTensor({elements}, values);
  tensor.device = DeviceKind::kNull;
  return tensor;
}

InputView Bare(const Tensor& tensor) {
  InputView view = {};
  view.is_tensor = true;
  view.dtype = tensor.dtype;
  view.rank = static_cast<int32_t>(tensor.sizes.size());
  view.data = tensor.data;
  view.sizes = tensor.sizes.data();
  view.strides = tensor.strides.data();
  view.number = tensor.storage_offset;
  return view;
}

}  // namespace kiln
