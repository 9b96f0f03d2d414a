#ifndef KILN_RUNTIME_GRAPH_TREE_GENERATIONS_H_
#define KILN_RUNTIME_GRAPH_TREE_GENERATIONS_H_

#include <cstdint>

// Iterations of the user's program: results of one may be overwritten by the
// next. One for all devices of a process.

namespace kiln::graph_tree {

// Thread-compatible.
class Generations {
 public:
  // The user says where an iteration begins. Once said, only this counts.
  void MarkStepBegin() { --marks_; }
  // For a front end that counts itself: the calls of compiled programs that are not
  // inside of one, and how often the user said that an iteration begins.
  void Set(int64_t calls, int64_t marks) {
    calls_ = calls;
    marks_ = -marks;
  }

  bool marked() const { return marks_ != 0; }
  int64_t current() const { return marked() ? marks_ : calls_; }

 private:
  int64_t marks_ = 0;  // counts down: no mark equals a call
  int64_t calls_ = 0;
};

}  // namespace kiln::graph_tree

#endif  // KILN_RUNTIME_GRAPH_TREE_GENERATIONS_H_
