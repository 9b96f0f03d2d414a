#ifndef KILN_SERVER_ACT_SUBJECTS_H_
#define KILN_SERVER_ACT_SUBJECTS_H_

#include <string>

#include "proto/admin_service.pb.h"

namespace kiln {

// What an act of an admin bears on, as the audit log has it: compilectl's words. A
// token that was pasted into one of them leaves its name at most (token_name.h). Pure.

std::string SubjectOf(
    const wire::QuarantineRequest& asked);  // "key 9c41d2", "all"
// "key 9c41d2 older than 168h on cuda in team-a".
std::string SubjectOf(const wire::PurgeRequest& asked);
std::string SubjectOf(const wire::PinRequest& asked);  // "key 9c41d2 in team-a"
std::string SubjectOf(const wire::MaintainRequest& asked);  // "scrub", "stop"
// "ci: submitter in team-a, team-b for 720h".
std::string SubjectOf(const wire::AddTokenRequest& asked);
std::string SubjectOf(const wire::RevokeTokenRequest& asked);  // "ci"
std::string SubjectOf(const wire::RevokeKeyRequest& asked);    // its digits

}  // namespace kiln

#endif  // KILN_SERVER_ACT_SUBJECTS_H_
