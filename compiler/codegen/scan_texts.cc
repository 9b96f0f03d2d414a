#include "compiler/codegen/scan_texts.h"

#include "absl/strings/str_cat.h"
#include "compiler/codegen/scalar_text.h"
#include "compiler/schedule/reduce_ops.h"
#include "proto/base/status.h"

namespace kiln {

DType ScanTexts::DTypeOf(ScalarId scan) const {
  const ScalarNode& node = nest_.body[scan];
  return IsCarriedAsDouble(node) ? DType::kFloat64 : node.dtype;
}

std::string ScanTexts::Type(ScalarId scan) const {
  return std::string(CTypeName(DTypeOf(scan)));
}

std::string ScanTexts::Identity(ScalarId scan) const {
  return IdentityText(nest_.body[scan].reduce, DTypeOf(scan));
}

absl::StatusOr<std::string> ScanTexts::Combined(ScalarId scan,
                                                const std::string& a,
                                                const std::string& b) const {
  return CombineText(nest_.body[scan].reduce, DTypeOf(scan), a, b);
}

absl::StatusOr<std::string> ScanTexts::Joiner(ScalarId scan) const {
  const std::string type = Type(scan);
  ASSIGN_OR_RETURN(const std::string both, Combined(scan, "a", "b"));
  return absl::StrCat("[](", type, " a, ", type, " b) { return (", type, ")(",
                      both, "); }");
}

}  // namespace kiln
