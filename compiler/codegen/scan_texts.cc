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

bool ScanTexts::IsPair(ScalarId scan) const {
  return nest_.body[scan].reduce == ReduceOp::kLogSumExp;
}

std::string ScanTexts::Type(ScalarId scan) const {
  if (IsPair(scan))
    return absl::StrCat("k_lse_", TypeEnding(nest_.body[scan].dtype));
  return std::string(CTypeName(DTypeOf(scan)));
}

std::string ScanTexts::Identity(ScalarId scan) const {
  const std::string identity =
      IdentityText(nest_.body[scan].reduce, DTypeOf(scan));
  return IsPair(scan) ? absl::StrCat(Type(scan), "(", identity, ")") : identity;
}

absl::StatusOr<std::string> ScanTexts::Combined(ScalarId scan,
                                                const std::string& a,
                                                const std::string& b) const {
  if (IsPair(scan)) return absl::StrCat("k_lse_join(", a, ", ", b, ")");
  return CombineText(nest_.body[scan].reduce, DTypeOf(scan), a, b);
}

absl::StatusOr<std::string> ScanTexts::Joiner(ScalarId scan) const {
  const std::string type = Type(scan);
  ASSIGN_OR_RETURN(const std::string both, Combined(scan, "a", "b"));
  return absl::StrCat("[](", type, " a, ", type, " b) { return (", type, ")(",
                      both, "); }");
}

}  // namespace kiln
