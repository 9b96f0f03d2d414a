#ifndef KILN_COMPILER_CODEGEN_SCAN_TEXTS_H_
#define KILN_COMPILER_CODEGEN_SCAN_TEXTS_H_

#include <string>

#include "absl/status/statusor.h"
#include "compiler/loop/loop_nest.h"

namespace kiln {

// The state that a kScan carries from one point to the next on CUDA, as source
// text. Float sums and products are carried as doubles. A logsumexp is carried as a
// pair, the largest term and the sum relative to it; casts turn a value into a pair
// and back.
class ScanTexts {
 public:
  // `nest` must outlive this.
  explicit ScanTexts(const LoopNest& nest) : nest_(nest) {}

  std::string Type(ScalarId scan) const;
  // The neutral element.
  std::string Identity(ScalarId scan) const;
  // The state after `a` and then `b`, both of that type. UNSUPPORTED_OP: the type
  // has no such scan.
  absl::StatusOr<std::string> Combined(ScalarId scan, const std::string& a,
                                       const std::string& b) const;
  // A function object that computes Combined.
  absl::StatusOr<std::string> Joiner(ScalarId scan) const;

 private:
  DType DTypeOf(ScalarId scan) const;
  bool IsPair(ScalarId scan) const;

  const LoopNest& nest_;
};

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_SCAN_TEXTS_H_
