#ifndef KILN_TESTS_SUPPORT_FAULTY_DISK_H_
#define KILN_TESTS_SUPPORT_FAULTY_DISK_H_

#include <rocksdb/env.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace kiln {

// The machine's disk as RocksDB sees it, with faults that a test turns on and off
// while it is used.
class FaultyDisk {
 public:
  struct Faults {
    // Writes fail with ENOSPC, and new files cannot be made.
    std::atomic<bool> full{false};
    // A write puts half of its bytes down, then fails with ENOSPC.
    std::atomic<bool> short_writes{false};
    // The disk cannot be told to keep what was written: EIO.
    std::atomic<bool> fails_sync{false};
    // Reads fail with EIO, and files cannot be opened for reading.
    std::atomic<bool> fails_reads{false};
    // If set, is called with the name of each file that is about to be made. Not to be
    // changed while the disk is used.
    std::function<void(const std::string& name)> at_new_file;
    // What the disk says it has left; -1: as it is.
    std::atomic<int64_t> free_bytes{-1};
  };

  FaultyDisk();

  Faults& faults() { return *faults_; }
  rocksdb::Env* env() { return env_.get(); }

 private:
  const std::shared_ptr<Faults> faults_;
  const std::unique_ptr<rocksdb::Env> env_;
};

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_FAULTY_DISK_H_
