#include "compiler/codegen/sort_writer.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {

SortWriter::SortWriter(CudaBody& body)
    : body_(body),
      nest_(body.nest),
      facts_(body.facts),
      groups_(PointsOf(body, facts_.num_outer, facts_.num_axes)),
      rows_(PointsOf(body, 0, facts_.num_outer)),
      nodes_(NodesOfScans(body.nest, body.facts)),
      sort_(nodes_.ops[0]) {}

absl::Status SortWriter::OpenRow() {
  if (SizeInBytes(key_type()) > 4) {
    return MakeError(
        ErrorReason::kUnsupportedOp,
        absl::StrCat("sort of ", ShortName(key_type()), " on CUDA"));
  }
  const char* type = body_.index_type();
  body_.out.Line("const int t = (int)threadIdx.x;");
  OpenGridLoop(body_, "first", absl::StrCat("(unsigned ", type, ")blockIdx.x"),
               rows_, 1, false);
  body_.out.Line("const ", type, " row = (", type, ")first;");
  SplitPoint(body_, "row", 0, facts_.num_outer);
  for (ScalarId id : nodes_.outer) RETURN_IF_ERROR(body_.Node(id));
  return absl::OkStatus();
}

CudaGrid SortWriter::CloseRow(int blocks) {
  // The next row's keys go where this row's are still read.
  if (!body_.one_turn) body_.out.Line("__syncthreads();");
  body_.out.Close();
  return CudaGrid{rows_, blocks};
}

std::string SortWriter::Place() const {
  return body_.vectors.width > 1 ? absl::StrCat("(", axis(), " + e)") : axis();
}

std::string SortWriter::Order() const {
  const ScalarNode& sort = nest_.body[sort_];
  const DType dtype = key_type();
  ScalarId value = sort.args[0];
  if (dtype != nest_.body[value].dtype) value = nest_.body[value].args[0];
  return absl::StrCat("k_sort_order_", TypeEnding(dtype), "<",
                      sort.reduce == ReduceOp::kMax ? "true" : "false", ">(",
                      body_.Text(value), ")");
}

absl::Status SortWriter::Group(absl::FunctionRef<void()> at_element) {
  SplitPoint(body_, "r", facts_.num_outer, facts_.num_axes);
  const auto then = [&](CudaBody::Place place) {
    if (place == CudaBody::Place::kNeighbour) at_element();
    return absl::OkStatus();
  };
  static const std::vector<uint32_t> kNone;
  return body_.WriteGroup({nodes_.inputs, kNone, then, ""});
}

absl::Status SortWriter::StorePlaces(int threads, const std::string& text) {
  const std::string at = axis(), type = body_.index_type();
  const std::string some =
      asked() > 0 ? absl::StrCat(at, " < ", asked(), " && ") : "";
  body_.SetVectors({facts_.num_axes - 1, 1, 0, false});
  body_.out.Open("for (", type, " ", at, " = t; ", some, at, " < ",
                 body_.Index(size()), "; ", at, " += ", threads, ")");
  body_.SetText(sort_, text);
  std::vector<uint32_t> stores;
  for (uint32_t s = 0; s < nest_.stores.size(); ++s) stores.push_back(s);
  RETURN_IF_ERROR(
      body_.WriteGroup({nodes_.stored, stores,
                        [](CudaBody::Place) { return absl::OkStatus(); }, ""}));
  body_.out.Close();
  return absl::OkStatus();
}

}  // namespace kiln
