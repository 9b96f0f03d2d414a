#include "server/unary_call.h"

#include "proto/base/status.h"
#include "server/wire_status.h"

namespace kiln {

absl::Status UnaryCall::TakePlace(absl::string_view caller) {
  ASSIGN_OR_RETURN(part_, shares_.Take(caller));
  return absl::OkStatus();
}

void UnaryCall::Answer(const absl::Status& status) {
  unread_.Begin(write_);
  Finish(EndCall(context_, status));
}

void UnaryCall::OnDone() {
  unread_.Leave(write_);
  delete this;
}

}  // namespace kiln
