#ifndef KILN_SERVER_ACCESS_FILE_VERSION_H_
#define KILN_SERVER_ACCESS_FILE_VERSION_H_

#include <sys/stat.h>

#include <string>

namespace kiln {

// Which state of a file was read, for those that are read again when they change.
struct FileVersion {
  timespec changed = {};
  off_t size = -1;
  ino_t file = 0;

  friend bool operator==(const FileVersion& a, const FileVersion& b) {
    return a.changed.tv_sec == b.changed.tv_sec &&
           a.changed.tv_nsec == b.changed.tv_nsec && a.size == b.size &&
           a.file == b.file;
  }
};

// As it is now; a default one when there is no such file. Before the file is read: what
// changes meanwhile is read again.
inline FileVersion VersionOf(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return {};
  return {info.st_mtim, info.st_size, info.st_ino};
}

}  // namespace kiln

#endif  // KILN_SERVER_ACCESS_FILE_VERSION_H_
