#ifndef KILN_CLIENT_C_API_C_LAUNCH_H_
#define KILN_CLIENT_C_API_C_LAUNCH_H_

#include <cstdint>
#include <memory>
#include <string>

#include "client/c_api/kiln.h"
#include "client/session.h"
#include "runtime/launch_hooks.h"
#include "runtime/run_options.h"
#include "runtime/trace.h"

struct KilnTrace {
  kiln::Trace trace;
};

namespace kiln {

// Calls a C caller's hooks for the launches of one run. Not thread-safe.
class CallerHooks : public LaunchHooks {
 public:
  CallerHooks(const KilnRunOptions& options, const Callable& callable);
  ~CallerHooks() override;
  void Enter(const Launch& launch) override;
  void Exit(const Launch& launch) override;

 private:
  const KilnRunOptions& options_;
  const Callable& callable_;
  std::unique_ptr<KilnLaunch> now_;  // from Enter to Exit
};

// Describes a callable's nodes in traces of its runs.
class CallableNodes : public NodeWords {
 public:
  explicit CallableNodes(const Callable& callable) : callable_(callable) {}
  std::string Of(uint32_t node) const override;

 private:
  const Callable& callable_;
};

}  // namespace kiln

#endif  // KILN_CLIENT_C_API_C_LAUNCH_H_
