#include "proto/jail/jail_syscalls.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kiln {
namespace {

constexpr uint32_t kRefused[] = {
    // Files by another way than their paths.
    SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_open_tree,
    SYS_move_mount, SYS_fsopen, SYS_fsconfig, SYS_fsmount, SYS_fspick,
    SYS_mount_setattr, SYS_name_to_handle_at, SYS_open_by_handle_at,
    SYS_fanotify_init, SYS_quotactl, SYS_swapon, SYS_swapoff, SYS_acct,
    // Namespaces.
    SYS_unshare, SYS_setns,
    // A policy that a filter does not see, as it lies in memory.
    SYS_sched_setattr,
    // Other processes.
    SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_kcmp,
    SYS_pidfd_getfd, SYS_process_madvise,
    // Keys, memory and messages that outlive a process.
    SYS_keyctl, SYS_add_key, SYS_request_key, SYS_shmget, SYS_shmat, SYS_semget,
    SYS_msgget, SYS_mq_open,
    // Large parts of the kernel.
    SYS_bpf, SYS_perf_event_open, SYS_userfaultfd, SYS_io_uring_setup,
    SYS_io_uring_enter, SYS_io_uring_register, SYS_init_module,
    SYS_finit_module, SYS_delete_module, SYS_kexec_load, SYS_kexec_file_load,
    SYS_reboot, SYS_syslog,
    // The machine's clock and name.
    SYS_settimeofday, SYS_clock_settime, SYS_adjtimex, SYS_clock_adjtime,
    SYS_sethostname, SYS_setdomainname, SYS_iopl, SYS_ioperm};

// Limits, priority, cores and memory of the process that the first argument
// names, 0 for the one that calls. Same user, so the kernel itself lets a worker
// without one of its own do this to its daemon.
constexpr uint32_t kOfSelfAlone[] = {SYS_prlimit64,      SYS_sched_setscheduler,
                                     SYS_sched_setparam, SYS_sched_setaffinity,
                                     SYS_migrate_pages,  SYS_move_pages};

// <linux/ioprio.h> has it only as of Linux 6.
constexpr uint32_t kIoPrioWhoProcess = 1;

constexpr uint32_t kNewNamespaces = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC |
                                    CLONE_NEWUSER | CLONE_NEWPID |
                                    CLONE_NEWNET | CLONE_NEWCGROUP;
// Numbers of the x32 ABI begin here.
constexpr uint32_t kX32 = 0x40000000;

class Filter {
 public:
  void Load(uint32_t offset) { Add(BPF_LD | BPF_W | BPF_ABS, offset, 0, 0); }
  void Return(uint32_t value) { Add(BPF_RET | BPF_K, value, 0, 0); }
  // The end of a process whose loaded word is another.
  void Require(uint32_t value) {
    Add(BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0);
    Return(SECCOMP_RET_KILL_PROCESS);
  }
  // Goes on where the loaded word has this to do with `value`, else passes over
  // the next `length` steps.
  void IfEqual(uint32_t value, uint8_t length) {
    Add(BPF_JMP | BPF_JEQ | BPF_K, value, 0, length);
  }
  void IfAtLeast(uint32_t value, uint8_t length) {
    Add(BPF_JMP | BPF_JGE | BPF_K, value, 0, length);
  }
  void IfAnyBit(uint32_t bits, uint8_t length) {
    Add(BPF_JMP | BPF_JSET | BPF_K, bits, 0, length);
  }
  void Refuse(uint32_t call, uint32_t error) {
    IfEqual(call, 1);
    Return(SECCOMP_RET_ERRNO | error);
  }
  // Refused with anything but `value` as its argument; the kernel reads 32 bits.
  void RequireArgument(uint32_t call, int argument, uint32_t value) {
    IfEqual(call, 4);
    Load(offsetof(seccomp_data, args) + argument * sizeof(uint64_t));
    Add(BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0);
    Return(SECCOMP_RET_ERRNO | EPERM);
    Load(offsetof(seccomp_data, nr));
  }
  // Of the calls to make a socket, or with `call` a pair of them, those for Unix
  // sockets that carry connections: all others send to whom they name.
  void KeepUnixSockets(uint32_t call) {
    constexpr uint32_t kTypes = 0xf;  // without flags
    IfEqual(call, 8);
    Load(offsetof(seccomp_data, args[0]));
    Add(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 0, 4);
    Load(offsetof(seccomp_data, args[1]));
    Add(BPF_ALU | BPF_AND | BPF_K, kTypes, 0, 0);
    Add(BPF_JMP | BPF_JEQ | BPF_K, SOCK_STREAM, 2, 0);
    Add(BPF_JMP | BPF_JEQ | BPF_K, SOCK_SEQPACKET, 1, 0);
    Return(SECCOMP_RET_ERRNO | EPERM);
    Return(SECCOMP_RET_ALLOW);
  }

  absl::Status Install() {
    sock_fprog program = {.len = static_cast<unsigned short>(steps_.size()),
                          .filter = steps_.data()};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0) {
      return absl::OkStatus();
    }
    return absl::ErrnoToStatus(errno, "seccomp");
  }

 private:
  void Add(uint16_t code, uint32_t k, uint8_t if_true, uint8_t if_false) {
    steps_.push_back({.code = code, .jt = if_true, .jf = if_false, .k = k});
  }

  std::vector<sock_filter> steps_;
};

}  // namespace

absl::Status RefuseSystemCalls(OwnGroups groups, Sockets sockets) {
  Filter filter;
  filter.Load(offsetof(seccomp_data, arch));
  filter.Require(AUDIT_ARCH_X86_64);
  filter.Load(offsetof(seccomp_data, nr));
  filter.IfAtLeast(kX32, 1);
  filter.Return(SECCOMP_RET_KILL_PROCESS);
  for (const uint32_t call : kRefused) filter.Refuse(call, EPERM);
  // The network.
  if (sockets == Sockets::kRefused) {
    filter.Refuse(SYS_socket, EPERM);
    filter.Refuse(SYS_connect, EPERM);
  } else {
    filter.Refuse(SYS_connect, ECONNREFUSED);
    filter.KeepUnixSockets(SYS_socket);
  }
  // Of pairs too: a datagram socket of one sends to any other that it names.
  filter.KeepUnixSockets(SYS_socketpair);
  // Its flags lie in memory, where a filter does not see them; libc falls back
  // to clone.
  filter.Refuse(SYS_clone3, ENOSYS);
  filter.Refuse(SYS_setsid, EPERM);
  if (groups == OwnGroups::kRefused) filter.Refuse(SYS_setpgid, EPERM);
  for (const uint32_t call : kOfSelfAlone) filter.RequireArgument(call, 0, 0);
  // Beside those of other policies hits wait longer (lowest_priority.h).
  filter.RequireArgument(SYS_sched_setscheduler, 1, SCHED_BATCH);
  // These name a process, a group or a user by two.
  filter.RequireArgument(SYS_setpriority, 0, PRIO_PROCESS);
  filter.RequireArgument(SYS_setpriority, 1, 0);
  filter.RequireArgument(SYS_ioprio_set, 0, kIoPrioWhoProcess);
  filter.RequireArgument(SYS_ioprio_set, 1, 0);
  filter.IfEqual(SYS_clone, 3);
  filter.Load(offsetof(seccomp_data, args[0]));
  filter.IfAnyBit(kNewNamespaces, 1);
  filter.Return(SECCOMP_RET_ERRNO | EPERM);
  filter.Return(SECCOMP_RET_ALLOW);
  return filter.Install();
}

}  // namespace kiln
