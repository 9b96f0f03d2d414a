#ifndef KILN_CLIENT_C_API_C_LAUNCH_H_
#define KILN_CLIENT_C_API_C_LAUNCH_H_

#include <memory>

#include "client/c_api/kiln.h"
#include "runtime/launch_hooks.h"
#include "runtime/trace.h"

struct KilnTrace {
  kiln::Trace trace;
};

namespace kiln {

// A caller that watches the launches of one run. One thread.
class CallerHooks : public LaunchHooks {
 public:
  explicit CallerHooks(const KilnRunOptions& options);
  ~CallerHooks() override;
  void Enter(const Launch& launch) override;
  void Exit(const Launch& launch) override;

 private:
  const KilnRunOptions& options_;
  std::unique_ptr<KilnLaunch> now_;  // from Enter to Exit
};

}  // namespace kiln

#endif  // KILN_CLIENT_C_API_C_LAUNCH_H_
