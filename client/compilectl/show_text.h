#ifndef KILN_CLIENT_COMPILECTL_SHOW_TEXT_H_
#define KILN_CLIENT_COMPILECTL_SHOW_TEXT_H_

#include <string>

#include "client/compilectl/commands.h"
#include "proto/admin_service.pb.h"

namespace kiln {

// An entry as text: the head (key, target, guards, counters), then
//   kPlan     the steps of its launch plan, one per line
//   kKernels  each kernel with the nodes that it computes and its plan's text
//   kSources  the source of each translation unit
std::string ShowText(const wire::ShowReply& reply, ShowWhat what);

}  // namespace kiln

#endif  // KILN_CLIENT_COMPILECTL_SHOW_TEXT_H_
