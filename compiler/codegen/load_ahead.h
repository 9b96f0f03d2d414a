#ifndef KILN_COMPILER_CODEGEN_LOAD_AHEAD_H_
#define KILN_COMPILER_CODEGEN_LOAD_AHEAD_H_

// The loads of several groups that a thread issues together, before it uses the
// first: each in an array of packs, a pack a group.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "compiler/codegen/cuda_body.h"

namespace kiln {

class LoadsAhead {
 public:
  // Of `nodes` those that may be loaded ahead and have no name in `kept`.
  LoadsAhead(CudaBody& body, const std::vector<ScalarId>& nodes,
             const std::vector<std::string>& kept)
      : body_(body) {
    for (ScalarId id : nodes)
      if (body.MayLoadAhead(id) && kept[id].empty()) loads_.push_back(id);
  }

  const std::vector<ScalarId>& loads() const { return loads_; }

  void Declare(int groups) {
    for (ScalarId id : loads_) {
      names_.push_back(body_.Fresh("l"));
      body_.out.Line(body_.PackType(id), " ", names_.back(), "[", groups,
                     "] = {};");
    }
  }
  // `number`: of the group, as text.
  void Load(const std::string& number) {
    for (size_t i = 0; i < loads_.size(); ++i)
      body_.LoadAhead(loads_[i], Cell(i, number));
  }
  void Read(const std::string& number) {
    for (size_t i = 0; i < loads_.size(); ++i)
      body_.ReadFrom(loads_[i], Cell(i, number));
  }
  // After this they are loaded where they are used.
  void Forget() {
    for (ScalarId id : loads_) body_.ForgetAhead(id);
  }

 private:
  std::string Cell(size_t i, const std::string& number) const {
    return absl::StrCat(names_[i], "[", number, "]");
  }

  CudaBody& body_;
  std::vector<ScalarId> loads_;
  std::vector<std::string> names_;
};

// What a thread takes in one step of a loop over `r`: `unroll` points (or groups
// of them), `stride` apart, as far as they are below `limit`.
struct UnrolledPoints {
  int unroll;
  int64_t stride;
  std::string limit;
  bool all_below = false;  // all are, whichever the thread
  bool stores = false;     // a step writes to memory
};

// Writes `step` at each of them, over the axes that are reduced. Of more than one,
// the loads of `nodes` that have no name in `kept` are issued together before.
// Where none can be, and a step stores, one step's code serves all: loads do not
// pass the stores before them, so written out it would run no faster.
absl::Status WriteUnrolled(CudaBody& body, const UnrolledPoints& points,
                           const std::vector<ScalarId>& nodes,
                           const std::vector<std::string>& kept,
                           absl::FunctionRef<absl::Status()> step);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_LOAD_AHEAD_H_
