// What a process knows of the launcher that has started it (see local_launcher.h), by variables of
// its environment.
#ifndef DPIPE_CORE_COMM_RENDEZVOUS_LAUNCHED_PROCESS_H_
#define DPIPE_CORE_COMM_RENDEZVOUS_LAUNCHED_PROCESS_H_

#include <optional>

namespace dpipe {

// Whose values are the launcher's process id and the numbers of two descriptors.
inline constexpr char kLauncherVariable[] = "DPIPE_LAUNCHER_PID";
inline constexpr char kListenerVariable[] = "DPIPE_LISTENER_FD";
inline constexpr char kHoldVariable[] = "DPIPE_HOLD_FD";

// Whether a launcher has started this process.
bool StartedByLauncher();

// Where the launcher has started this process as number 0: the open socket.
std::optional<int> InheritedListener();

// Where the launcher has started this process: a pipe on which it writes '1' when it begins to hold
// the job's end up and '0' when it no longer does (see EndHold).
std::optional<int> InheritedHoldPipe();

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_RENDEZVOUS_LAUNCHED_PROCESS_H_
