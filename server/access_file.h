#ifndef KILN_SERVER_ACCESS_FILE_H_
#define KILN_SERVER_ACCESS_FILE_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/access/access_rule.h"
#include "server/access/audit_log.h"
#include "server/access/file_version.h"

namespace kiln {

// The [[access]] rules of the configuration's file, read again when it changes. All
// else in it takes a new start. One thread.
class AccessFile {
 public:
  // Given the rules of a file that is good.
  using Take = std::function<void(std::vector<AccessRule> rules)>;

  // `in_force` were read from `path`. `audit` outlives this.
  AccessFile(std::string path, std::vector<AccessRule> in_force,
             AuditLog& audit, Take take)
      : path_(std::move(path)),
        audit_(audit),
        take_(std::move(take)),
        version_(VersionOf(path_)),
        in_force_(std::move(in_force)) {}

  // Looks whether the file has changed. Rules that are others than those in force are
  // taken, and that is audited. Of a file that is not good, or is gone, none are: those
  // before hold, and the audit log and the daemon's say so, once for each state of the
  // file.
  void Look();

 private:
  // What is audited, and how it ended.
  void Tell(const std::string& subject, const absl::Status& outcome);

  const std::string path_;
  AuditLog& audit_;
  const Take take_;
  FileVersion version_;
  std::vector<AccessRule> in_force_;
};

}  // namespace kiln

#endif  // KILN_SERVER_ACCESS_FILE_H_
