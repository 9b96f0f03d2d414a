#ifndef KILN_SERVER_TURNS_H_
#define KILN_SERVER_TURNS_H_

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <utility>

namespace kiln {

// What holders (callers, namespaces) have waiting, in turns: who has a thousand holds
// another's one up by one. `Held` is what one of them has, as a deque: a container
// with empty(). Not thread-safe.
template <typename Held>
class Turns {
 public:
  bool empty() const { return turns_.empty(); }

  // What the holder has, to be added to: it must not be left empty. Whoever had
  // nothing has the last turn.
  Held& Of(const std::string& holder) {
    const auto [own, is_new] = held_.try_emplace(holder);
    if (is_new) turns_.push_back(holder);
    return own->second;
  }

  // What the holder has whose turn it is. There must be one.
  Held& Next() { return held_.at(turns_.front()); }

  // Gives the holder the turn before all others, if it has anything.
  void Bring(const std::string& holder) {
    const auto own = std::find(turns_.begin(), turns_.end(), holder);
    if (own != turns_.end()) std::rotate(turns_.begin(), own, own + 1);
  }

  // Ends that turn.
  void Pass() {
    std::string holder = std::move(turns_.front());
    turns_.pop_front();
    const auto own = held_.find(holder);
    if (own->second.empty()) {
      held_.erase(own);
    } else {
      turns_.push_back(std::move(holder));
    }
  }

 private:
  std::map<std::string, Held> held_;  // none is empty between calls
  std::deque<std::string> turns_;     // each of them once
};

}  // namespace kiln

#endif  // KILN_SERVER_TURNS_H_
