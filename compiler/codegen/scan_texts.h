#ifndef KILN_COMPILER_CODEGEN_SCAN_TEXTS_H_
#define KILN_COMPILER_CODEGEN_SCAN_TEXTS_H_

#include <string>

#include "absl/status/statusor.h"
#include "compiler/loop/loop_nest.h"

namespace kiln {

// What a kScan carries from one point to the next on CUDA, as text. Float sums
// and products are carried as doubles, a logarithm of a sum as the greatest term and
// the sum relative to it: such a pair is made from a value, and gives one back, by
// casts.
class ScanTexts {
 public:
  // `nest` must outlive this.
  explicit ScanTexts(const LoopNest& nest) : nest_(nest) {}

  std::string Type(ScalarId scan) const;
  // What changes nothing.
  std::string Identity(ScalarId scan) const;
  // `a` and then `b`, of that type. UNSUPPORTED_OP: the type has no such scan.
  absl::StatusOr<std::string> Combined(ScalarId scan, const std::string& a,
                                       const std::string& b) const;
  // A function object that does.
  absl::StatusOr<std::string> Joiner(ScalarId scan) const;

 private:
  DType DTypeOf(ScalarId scan) const;
  bool IsPair(ScalarId scan) const;

  const LoopNest& nest_;
};

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_SCAN_TEXTS_H_
