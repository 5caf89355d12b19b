// How a launched process ends: not while a file is being written, and not before its job does.
#ifndef DPIPE_CORE_COMM_RENDEZVOUS_LAUNCH_PROCESS_EXIT_H_
#define DPIPE_CORE_COMM_RENDEZVOUS_LAUNCH_PROCESS_EXIT_H_

#include <atomic>
#include <optional>
#include <thread>

#include "absl/time/time.h"
#include "core/comm/rendezvous/store/store_client.h"

namespace dpipe {

// What a process knows about the launcher that started it (see local_launcher.h), from variables of
// its environment.

// Their values are the launcher's process id and two file descriptors.
inline constexpr char kLauncherVariable[] = "DPIPE_LAUNCHER_PID";
inline constexpr char kListenerVariable[] = "DPIPE_LISTENER_FD";
inline constexpr char kHoldVariable[] = "DPIPE_HOLD_FD";

// True if a launcher has started this process.
bool StartedByLauncher();

// Returns the listening socket if a launcher has started this process as number 0.
std::optional<int> InheritedListener();

// Returns a pipe to the launcher, if a launcher has started this process. The process writes '1' to
// it when its first ExitHold begins and '0' when its last one ends.
std::optional<int> InheritedHoldPipe();

// Protects work that must not be cut off when the job fails, such as writing a checkpoint.

// Maximum time that a failed job waits for a hold to end: several times what writing tens of
// gigabytes takes.
inline constexpr absl::Duration kMaxHold = absl::Minutes(10);

// While one exists, neither ExitWithJob nor the launcher that started this process ends the
// process. Thread-safe; there may be several.
class ExitHold {
 public:
  ExitHold();
  ~ExitHold();
  ExitHold(const ExitHold&) = delete;
  ExitHold& operator=(const ExitHold&) = delete;

  // True if this process has one.
  static bool held();
};

// Ends a process when its job fails.
//
// A failure ends every wait for other processes at once. But a process may be computing on its own,
// or be blocked by a disk, and would reach its next wait much later, or never.

// Long enough for a waiting rank to report what it waits for.
inline constexpr absl::Duration kShutdownGrace = absl::Seconds(10);

class ExitWithJob {
 public:
  // While this exists, a failure of the job ends the process `shutdown_grace` later, without
  // cleanup, with exit code 1 and a line on standard error that says why. Time during which there
  // is an ExitHold does not count, up to a total of `max_hold`. `store` outlives this.
  explicit ExitWithJob(StoreClient* store, absl::Duration shutdown_grace = kShutdownGrace,
                       absl::Duration max_hold = kMaxHold);
  ~ExitWithJob();
  ExitWithJob(const ExitWithJob&) = delete;
  ExitWithJob& operator=(const ExitWithJob&) = delete;

 private:
  void Loop();

  StoreClient* const store_;
  const absl::Duration shutdown_grace_;
  const absl::Duration max_hold_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_RENDEZVOUS_LAUNCH_PROCESS_EXIT_H_
