// Runs a case of a suite in a process of its own.
#ifndef DPIPE_BENCH_SUITE_RUNNER_SUITE_PROCESS_H_
#define DPIPE_BENCH_SUITE_RUNNER_SUITE_PROCESS_H_

#include <functional>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace dpipe::bench {

// Exit status of a program that its referee told to stop.
inline constexpr int kCancelledStatus = 3;
// Exit status of a program that a signal stopped.
inline constexpr int kInterruptedStatus = 130;

// Returns the command that starts this program again with its arguments `given` and `more`. If this
// program was started through a loader (ld.so PROGRAM ...), the command starts the loader again,
// because /proc/self/exe is the loader then.
std::vector<std::string> OwnCommand(const std::vector<std::string>& given, const std::string& more);

// Runs a command, a program's path and its arguments, and waits for it to end. Passes on its
// standard error. The process does not outlive this program. Returns Cancelled if it ended with
// kCancelledStatus. Returns Internal if it ended with any other status than 0, with the status and
// the last line of its output.
//
// `stop_requested` is called several times a second and returns the source of a request to stop
// ("SIGINT"), or "". On a request the process gets SIGTERM, and SIGKILL if it has not ended within
// two seconds; the result is then Cancelled. Empty: no requests.
absl::Status RunProcess(const std::vector<std::string>& command,
                        const std::function<std::string()>& stop_requested = nullptr);

namespace internal {
// `started_by`: the full command line of this process.
std::vector<std::string> OwnCommand(const std::vector<std::string>& started_by,
                                    const std::vector<std::string>& given, const std::string& more);
}  // namespace internal

// Lets two programs take turns on one machine, so that other work on it affects both alike.
//
// A referee starts each program with a pair of pipes. A program writes one byte when it is ready,
// and continues when it receives one. Its turn lasts until it reports that it is ready again. The
// first turn needs no permission: the referee starts the second program when the first one is
// ready.

// The ends of the pipes that a program gets as "READ,WRITE": open file descriptors.
struct TurnPipes {
  int read_fd = -1;
  int write_fd = -1;
};

// Returns InvalidArgument if `text` is not two numbers of open descriptors.
absl::StatusOr<TurnPipes> ParseTurnPipes(const std::string& text);

// For a player: reports that it is ready and waits for its turn. Returns Cancelled if the referee
// has ended.
absl::Status WaitForTurn(const TurnPipes& pipes);

// For the referee: waits until the player is ready. Returns false if it has ended.
absl::StatusOr<bool> WaitUntilReady(const TurnPipes& pipes);
// Gives the player its turn. The player may have ended.
void GiveTurn(const TurnPipes& pipes);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_SUITE_RUNNER_SUITE_PROCESS_H_
