// What a process knows about the launcher that started it (see local_launcher.h), from variables of
// its environment.
#ifndef DPIPE_CORE_COMM_RENDEZVOUS_LAUNCH_LAUNCHED_PROCESS_H_
#define DPIPE_CORE_COMM_RENDEZVOUS_LAUNCH_LAUNCHED_PROCESS_H_

#include <optional>

namespace dpipe {

// Their values are the launcher's process id and two file descriptors.
inline constexpr char kLauncherVariable[] = "DPIPE_LAUNCHER_PID";
inline constexpr char kListenerVariable[] = "DPIPE_LISTENER_FD";
inline constexpr char kHoldVariable[] = "DPIPE_HOLD_FD";

// True if a launcher has started this process.
bool StartedByLauncher();

// Returns the listening socket if a launcher has started this process as number 0.
std::optional<int> InheritedListener();

// Returns a pipe to the launcher, if a launcher has started this process. The process writes '1' to
// it when its first EndHold begins and '0' when its last one ends.
std::optional<int> InheritedHoldPipe();

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_RENDEZVOUS_LAUNCH_LAUNCHED_PROCESS_H_
