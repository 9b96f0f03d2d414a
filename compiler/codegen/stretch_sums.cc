#include "compiler/codegen/stretch_sums.h"

#include "absl/strings/str_cat.h"

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

void StretchSums::JoinRows() {
  if (variant_.rows == 1) return;
  for (uint32_t s : stores_) {
    body_.out.Line("k_add_rows<", variant_.lanes, ", ", variant_.rows, ", ",
                   body_.vectors.width, ">(", names_[s], ");");
  }
}

absl::Status StretchSums::Store() {
  for (uint32_t s : stores_) body_.SetText(body_.nest.stores[s].value, Cell(s));
  const auto nothing = [](CudaBody::Place) { return absl::OkStatus(); };
  return body_.WriteGroup({{}, stores_, nothing, ""});
}

}  // namespace kiln
