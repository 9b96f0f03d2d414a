#ifndef KILN_COMPILER_CODEGEN_SORT_WRITER_H_
#define KILN_COMPILER_CODEGEN_SORT_WRITER_H_

// What kernels of a kSort have in common: a block for each row, a key for each element,
// and the stores at the sorted places.

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "compiler/codegen/cuda_body.h"
#include "compiler/codegen/cuda_grid.h"
#include "compiler/codegen/scanned_nodes.h"

namespace kiln {

class SortWriter {
 public:
  explicit SortWriter(CudaBody& body);

  DType key_type() const { return SortKeyType(nest_, nest_.body[sort_]); }
  // How many places are asked for; 0 for all.
  int64_t asked() const { return nest_.body[sort_].number.i; }
  const SymExpr& size() const { return facts_.extents[facts_.num_axes - 1]; }
  const SymExpr& groups() const { return groups_; }  // of a row
  const ScannedNodes& nodes() const { return nodes_; }

  // Opens the loop over the block's rows. The thread's number is `t`.
  //
  // Errors: UNSUPPORTED_OP for elements of more than 32 bits.
  absl::Status OpenRow();
  CudaGrid CloseRow(int blocks);

  // The place in its row of the element at hand.
  std::string Place() const;
  // A number that compares as that element does.
  std::string Order() const;
  // Calls `at_element` at each element of the group `r`.
  absl::Status Group(absl::FunctionRef<void()> at_element);
  // The stores at each of the places asked for. `text` is the place in the row that
  // comes there; it may name the axis, axis().
  absl::Status StorePlaces(int threads, const std::string& text);
  std::string axis() const { return CudaBody::AxisName(facts_.num_axes - 1); }

 private:
  CudaBody& body_;
  const LoopNest& nest_;
  const NestFacts& facts_;
  const SymExpr groups_, rows_;
  const ScannedNodes nodes_;
  const ScalarId sort_;
};

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_SORT_WRITER_H_
