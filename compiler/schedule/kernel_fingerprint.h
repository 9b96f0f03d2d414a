#ifndef KILN_COMPILER_SCHEDULE_KERNEL_FINGERPRINT_H_
#define KILN_COMPILER_SCHEDULE_KERNEL_FINGERPRINT_H_

// What makes two kernels of a plan the same code.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/schedule/kernel_plan.h"

namespace kiln {

enum class FingerprintSizes : uint8_t {
  kKept,
  // The same without the operators that a kernel came from, which name it.
  kSizesOnly,
  // The extent of the first axis is an argument, and how long buffers are does
  // not count: parameters of an optimizer, each of its own shape, are equal.
  kFirstOpen,
};

// All that a writer of kernels reads of one, as bytes, with buffers numbered by
// first use. Equal bytes are equal kernels but for their arguments.
class KernelFingerprint {
 public:
  // `buffers` are the plan's.
  KernelFingerprint(const PlannedKernel& kernel,
                    const std::vector<Buffer>& buffers, FingerprintSizes sizes);
  // Of a nest that has no variant yet.
  KernelFingerprint(const LoopNest& nest, const std::vector<Buffer>& buffers,
                    FingerprintSizes sizes);

  const std::string& bytes() const { return bytes_; }
  // The buffers named, in order of first use.
  const std::vector<BufferId>& buffers() const { return order_; }
  // The random streams, in order.
  const std::vector<int64_t>& streams() const { return streams_; }

 private:
  void AddInt(int64_t value);
  void AddText(absl::string_view text);
  void AddExpr(const SymExpr& e);
  void AddDims(const DimVector& dims);
  void AddBuffer(BufferId id);
  void AddNode(const ScalarNode& node);
  void AddNest(const LoopNest& nest);

  const std::vector<Buffer>& buffers_;
  const FingerprintSizes sizes_;
  std::string bytes_;
  std::vector<BufferId> order_;
  std::vector<int64_t> streams_;
  absl::flat_hash_map<BufferId, size_t> number_;
};

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_KERNEL_FINGERPRINT_H_
