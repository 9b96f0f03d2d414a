// Assertions: a single bool. If it is false, storing it ends the run.

#include <string>

#include "compiler/loop/lowering.h"

namespace kiln {
namespace {

// PyTorch's messages for assertions without a message.
constexpr char kPlain[] =
    "Expected Tensor with single nonzero value, but got zero";
constexpr char kEmpty[] = "Assertion is failed";

std::string TextOf(const NodeLowering& n) {
  if (n.node.args.size() < 2) return kPlain;
  const auto& text = std::get<std::string>(n.arg(1).v);
  return text.empty() ? kEmpty : text;
}

absl::Status Assert(NodeLowering& n, ScalarOp) {
  NestWriter nest = n.Write();
  const DimVector one = nest.Iterate(n.meta(0).sizes);
  const ScalarId holds = nest.LoadAs(n.tensor(0), one, DType::kBool);
  const BufferId cell =
      n.g.AddBuffer(BufferKind::kTemporary, DType::kBool, {}, {});
  n.g.program.buffers[cell].assertion = TextOf(n);
  nest.StoreTo(cell, {}, holds);
  nest.Finish();
  return absl::OkStatus();
}

constexpr LowerRow kRows[] = {
    {"aten._assert_async.default", Assert},
    {"aten._assert_async.msg", Assert},
};

}  // namespace

absl::Span<const LowerRow> AssertionLowerings() { return kRows; }

}  // namespace kiln
