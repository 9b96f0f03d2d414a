#ifndef KILN_COMPILER_CODEGEN_SCAN_TEXTS_H_
#define KILN_COMPILER_CODEGEN_SCAN_TEXTS_H_

#include <string>

#include "absl/status/statusor.h"
#include "compiler/loop/loop_nest.h"

namespace kiln {

// Source text for the state that a kScan carries from one point to the next on CUDA.
// Float sums and products are carried as doubles. A logsumexp is carried as a pair: the
// largest term, and the sum relative to it. Casts convert between a value and a pair.
class ScanTexts {
 public:
  // `nest` must outlive this.
  explicit ScanTexts(const LoopNest& nest) : nest_(nest) {}

  std::string Type(ScalarId scan) const;
  // The neutral element.
  std::string Identity(ScalarId scan) const;
  // The state after `a` and then `b`, both of that type. Errors: UNSUPPORTED_OP if the
  // type does not support the scan.
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
