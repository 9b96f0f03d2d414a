#include "compiler/codegen/stretch_sums.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/cuda_grid.h"
#include "compiler/schedule/held_rows.h"
#include "proto/base/status.h"

namespace kiln {

StretchSums::StretchSums(CudaBody& body, const CudaRows& variant)
    : body_(body), variant_(variant), names_(body.nest.stores.size()) {
  for (uint32_t s = 0; s < names_.size(); ++s) {
    if (body.nest.stores[s].mode != StoreMode::kSum) continue;
    stores_.push_back(s);
    names_[s] = body.Fresh("sum");
  }
}

std::string StretchSums::Cell(uint32_t store) const {
  const int width = body_.vectors.width;
  return width == 1 ? absl::StrCat(names_[store], "[k]")
                    : absl::StrCat(names_[store], "[k * ", width, " + e]");
}

void StretchSums::Declare() {
  for (uint32_t s : stores_) {
    const Buffer& buffer = body_.buffers[body_.nest.stores[s].buffer];
    body_.out.Line(CTypeName(buffer.dtype), " ", names_[s], "[",
                   variant_.held * body_.vectors.width, "] = {};");
  }
}

void StretchSums::Add(const std::string& live) {
  const std::string guard =
      live.empty() ? "" : absl::StrCat("if (", live, ") ");
  for (uint32_t s : stores_) {
    body_.out.Line(guard, Cell(s),
                   " += ", body_.Text(body_.nest.stores[s].value), ";");
  }
}

absl::Status StretchSums::Store() {
  for (uint32_t s : stores_) body_.SetText(body_.nest.stores[s].value, Cell(s));
  const auto nothing = [](CudaBody::Place) { return absl::OkStatus(); };
  return body_.WriteGroup({{}, stores_, nothing, ""});
}

// "for c", over the columns of `groups` held groups from `first` on: the axes and
// the neighbour of column `c`.
void StretchSums::OpenColumns(int groups, const std::string& first) {
  CWriter& out = body_.out;
  const NestFacts& facts = body_.facts;
  const char* type = body_.index_type();
  const int width = body_.vectors.width;
  out.Line("#pragma unroll 1");
  out.Open("for (int c = (int)threadIdx.x; c < ",
           groups * variant_.lanes * width,
           "; c += ", variant_.lanes * variant_.rows, ")");
  out.Line("const ", type, " r = ", first, " * ", variant_.lanes, " + c",
           width == 1 ? "" : absl::StrCat(" / ", width), ";");
  if (width > 1) out.Line("const int e = c % ", width, ";");
  const SymExpr points = PointsOf(body_, facts.num_outer, facts.num_axes);
  if (variant_.held % groups == 0 &&
      points.Is(int64_t{variant_.held} * variant_.lanes)) {
    out.Open();
  } else {
    out.Open("if (r < ", body_.Index(points), ")");
  }
  SplitPoint(body_, "r", facts.num_outer, facts.num_axes);
  if (body_.vectors.cut) out.Open("if (e >= lo && e < hi)");
}

void StretchSums::CloseColumns() {
  for (int scopes = body_.vectors.cut ? 3 : 2; scopes > 0; --scopes)
    body_.out.Close();
}

absl::StatusOr<int64_t> StretchSums::StoreRows(int64_t staged_bytes) {
  CWriter& out = body_.out;
  const int width = body_.vectors.width;
  const int groups = variant_.joined;
  const int row = groups * variant_.lanes * width;
  if (staged_bytes == 0) out.Line("extern __shared__ k_words<4> staged[];");
  for (uint32_t s : stores_) {
    const struct Store& store = body_.nest.stores[s];
    const std::string type(CTypeName(body_.buffers[store.buffer].dtype));
    out.Line("#pragma unroll");
    out.Open("for (int k = 0; k < ", variant_.held, "; k += ", groups, ")");
    out.Line("__syncthreads();");
    out.Line("#pragma unroll");
    out.Open("for (int j = 0; j < ", groups, "; ++j)");
    out.Line(variant_.held % groups == 0
                 ? ""
                 : absl::StrCat("if (k + j < ", variant_.held, ") "),
             "k_keep<", width, ">((", type, "*)staged + (int)threadIdx.x / ",
             variant_.lanes, " * ", row, " + (j * ", variant_.lanes, " + t) * ",
             width, ", ", names_[s], " + (k + j) * ", width, ");");
    out.Close();
    out.Line("__syncthreads();");
    OpenColumns(groups, "k");
    const std::string sum = body_.Fresh("t");
    out.Line("const ", type, " ", sum, " = k_add_rows<", variant_.rows, ">((",
             type, "*)staged + c, ", row, ");");
    body_.SetText(store.value, sum);
    RETURN_IF_ERROR(body_.StoreNeighbour(s));
    CloseColumns();
    out.Close();
  }
  return std::max(staged_bytes, groups * SumBytesOfGroup(variant_, body_.nest,
                                                         body_.buffers));
}

}  // namespace kiln
