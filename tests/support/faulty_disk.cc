#include "tests/support/faulty_disk.h"

#include <rocksdb/file_system.h>

#include <string>
#include <utility>

namespace kiln {
namespace {

using rocksdb::FileOptions;
using rocksdb::FileSystem;
using rocksdb::FSRandomAccessFile;
using rocksdb::FSSequentialFile;
using rocksdb::FSWritableFile;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;
using Faults = std::shared_ptr<FaultyDisk::Faults>;

IOStatus Full() { return IOStatus::NoSpace("injected"); }
IOStatus Failing() { return IOStatus::IOError("injected", "EIO"); }

class FaultyWrites final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  FaultyWrites(std::unique_ptr<FSWritableFile>&& file, Faults faults)
      : FSWritableFileOwnerWrapper(std::move(file)),
        faults_(std::move(faults)) {}

  using FSWritableFileOwnerWrapper::Append;
  IOStatus Append(const Slice& bytes, const IOOptions& options,
                  IODebugContext* debug) override {
    if (faults_->full) return Full();
    if (!faults_->short_writes)
      return FSWritableFileOwnerWrapper::Append(bytes, options, debug);
    IOStatus half = FSWritableFileOwnerWrapper::Append(
        Slice(bytes.data(), bytes.size() / 2), options, debug);
    return half.ok() ? Full() : half;
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    if (faults_->fails_sync) return Failing();
    return FSWritableFileOwnerWrapper::Sync(options, debug);
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    if (faults_->fails_sync) return Failing();
    return FSWritableFileOwnerWrapper::Fsync(options, debug);
  }
  bool IsSyncThreadSafe() const override { return true; }

 private:
  const Faults faults_;
};

class FaultyReads final : public rocksdb::FSRandomAccessFileOwnerWrapper {
 public:
  FaultyReads(std::unique_ptr<FSRandomAccessFile>&& file, Faults faults)
      : FSRandomAccessFileOwnerWrapper(std::move(file)),
        faults_(std::move(faults)) {}

  IOStatus Read(uint64_t offset, size_t size, const IOOptions& options,
                Slice* bytes, char* place,
                IODebugContext* debug) const override {
    if (faults_->fails_reads) return Failing();
    return FSRandomAccessFileOwnerWrapper::Read(offset, size, options, bytes,
                                                place, debug);
  }
  IOStatus MultiRead(rocksdb::FSReadRequest* requests, size_t count,
                     const IOOptions& options, IODebugContext* debug) override {
    if (faults_->fails_reads) return Failing();
    return FSRandomAccessFileOwnerWrapper::MultiRead(requests, count, options,
                                                     debug);
  }

 private:
  const Faults faults_;
};

class FaultyFiles final : public rocksdb::FileSystemWrapper {
 public:
  explicit FaultyFiles(Faults faults)
      : FileSystemWrapper(FileSystem::Default()), faults_(std::move(faults)) {}

  const char* Name() const override { return "FaultyFiles"; }

  IOStatus NewWritableFile(const std::string& name, const FileOptions& options,
                           std::unique_ptr<FSWritableFile>* file,
                           IODebugContext* debug) override {
    if (faults_->full) return Full();
    if (faults_->at_new_file) faults_->at_new_file(name);
    const IOStatus made =
        FileSystemWrapper::NewWritableFile(name, options, file, debug);
    if (made.ok())
      *file = std::make_unique<FaultyWrites>(std::move(*file), faults_);
    return made;
  }
  IOStatus NewRandomAccessFile(const std::string& name,
                               const FileOptions& options,
                               std::unique_ptr<FSRandomAccessFile>* file,
                               IODebugContext* debug) override {
    if (faults_->fails_reads) return Failing();
    const IOStatus opened =
        FileSystemWrapper::NewRandomAccessFile(name, options, file, debug);
    if (opened.ok())
      *file = std::make_unique<FaultyReads>(std::move(*file), faults_);
    return opened;
  }
  IOStatus NewSequentialFile(const std::string& name,
                             const FileOptions& options,
                             std::unique_ptr<FSSequentialFile>* file,
                             IODebugContext* debug) override {
    if (faults_->fails_reads) return Failing();
    return FileSystemWrapper::NewSequentialFile(name, options, file, debug);
  }
  IOStatus GetFreeSpace(const std::string& path, const IOOptions& options,
                        uint64_t* bytes, IODebugContext* debug) override {
    const int64_t injected = faults_->free_bytes;
    if (injected < 0)
      return FileSystemWrapper::GetFreeSpace(path, options, bytes, debug);
    *bytes = static_cast<uint64_t>(injected);
    return IOStatus::OK();
  }

 private:
  const Faults faults_;
};

}  // namespace

FaultyDisk::FaultyDisk()
    : faults_(std::make_shared<Faults>()),
      env_(rocksdb::NewCompositeEnv(std::make_shared<FaultyFiles>(faults_))) {}

}  // namespace kiln
