#ifndef KILN_COMPILER_CODEGEN_LOAD_AHEAD_H_
#define KILN_COMPILER_CODEGEN_LOAD_AHEAD_H_

// The loads of several groups that a thread issues together, before it uses the first
// one. Each load has an array of packs, one for each group.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "compiler/codegen/cuda_body.h"
#include "compiler/schedule/kernel_passes.h"

namespace kiln {

class LoadsAhead {
 public:
  // Takes those of `nodes` that are loaded together (LoadsTogether). Those with a name
  // in `kept` are at hand.
  LoadsAhead(CudaBody& body, const std::vector<ScalarId>& nodes,
             const std::vector<std::string>& kept)
      : body_(body),
        loads_(LoadsTogether(body.nest, body.facts, nodes,
                             [&](ScalarId id) { return !kept[id].empty(); })) {}

  const std::vector<ScalarId>& loads() const { return loads_; }

  void Declare(int groups) {
    for (ScalarId id : loads_) {
      names_.push_back(body_.Fresh("l"));
      body_.out.Line(body_.PackType(id), " ", names_.back(), "[", groups,
                     "] = {};");
    }
  }
  // `number` is the number of the group, as text.
  void Load(const std::string& number) {
    for (size_t i = 0; i < loads_.size(); ++i)
      body_.LoadAhead(loads_[i], Cell(i, number));
  }
  void Read(const std::string& number) {
    for (size_t i = 0; i < loads_.size(); ++i)
      body_.ReadFrom(loads_[i], Cell(i, number));
  }
  // From now on the values are loaded where they are used.
  void Forget() {
    for (ScalarId id : loads_) body_.ForgetAhead(id);
  }

 private:
  std::string Cell(size_t i, const std::string& number) const {
    return absl::StrCat(names_[i], "[", number, "]");
  }

  CudaBody& body_;
  const std::vector<ScalarId> loads_;
  std::vector<std::string> names_;
};

// The points (or groups of them) that a thread takes in one step of a loop over `r`:
// `unroll` of them, `stride` apart, as far as they are below `limit`.
struct UnrolledPoints {
  int unroll;
  int64_t stride;
  std::string limit;
  bool all_below = false;  // the points of all threads are below `limit`
  bool stores = false;     // a step writes to memory
};

// Writes `step` at each of these points, over the reduced axes. If there is more than
// one, the loads of `nodes` that have no name in `kept` are issued together before.
// AreWrittenOut says whether the steps are written out or a loop over the points.
absl::Status WriteUnrolled(CudaBody& body, const UnrolledPoints& points,
                           const std::vector<ScalarId>& nodes,
                           const std::vector<std::string>& kept,
                           absl::FunctionRef<absl::Status()> step);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_LOAD_AHEAD_H_
