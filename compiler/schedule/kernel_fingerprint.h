#ifndef KILN_COMPILER_SCHEDULE_KERNEL_FINGERPRINT_H_
#define KILN_COMPILER_SCHEDULE_KERNEL_FINGERPRINT_H_

// Tells which kernels of a plan have the same code.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/schedule/kernel_plan.h"

namespace kiln {

enum class FingerprintSizes : uint8_t {
  kKept,
  // Without the names of the operators that a kernel came from.
  kSizesOnly,
  // Without the extent of the first axis and the lengths of buffers, which become
  // arguments. Parameters of an optimizer with different shapes are then equal.
  kFirstOpen,
};

// The bytes hold everything that the code of a kernel depends on, with buffers numbered by
// first use. Kernels with equal bytes differ only in their arguments.
class KernelFingerprint {
 public:
  // `buffers` are the plan's.
  KernelFingerprint(const PlannedKernel& kernel,
                    const std::vector<Buffer>& buffers, FingerprintSizes sizes);
  // For a nest that has no variant yet.
  KernelFingerprint(const LoopNest& nest, const std::vector<Buffer>& buffers,
                    FingerprintSizes sizes);

  // Adds another nest. Its buffers are numbered after those of the first.
  void AddNest(const LoopNest& nest);

  absl::string_view bytes() const { return {bytes_.data(), size_}; }
  // The buffers that the kernel accesses, in order of first use.
  const std::vector<BufferId>& buffers() const { return order_; }
  // The kernel's random streams, in the order of the body.
  const std::vector<int64_t>& streams() const { return streams_; }

 private:
  void AddInt(int64_t value);
  // Makes room behind the bytes in use.
  void MakeRoom(size_t bytes);
  void AddText(absl::string_view text);
  void AddExpr(const SymExpr& e);
  void AddDims(const DimVector& dims);
  void AddBuffer(BufferId id);
  void AddNode(const ScalarNode& node);

  const std::vector<Buffer>& buffers_;
  const FingerprintSizes sizes_;
  std::string bytes_;  // of which the first size_ are in use
  size_t size_ = 0;
  std::vector<BufferId> order_;
  std::vector<int64_t> streams_;
};

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_KERNEL_FINGERPRINT_H_
