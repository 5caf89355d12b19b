// A case of a suite in a process of its own.
#ifndef DPIPE_BENCH_SUITE_PROCESS_H_
#define DPIPE_BENCH_SUITE_PROCESS_H_

#include <functional>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace dpipe::bench {

// What a program that was told to stop by its referee ends with.
inline constexpr int kCancelledStatus = 3;
// What it ends with where a signal has stopped it.
inline constexpr int kInterruptedStatus = 130;

// What starts this program once more with the same arguments and `more`. `given`: those that it
// has. Where a loader was asked to start it (ld.so PROGRAM ...), the loader again, since it is that
// which /proc/self/exe names.
std::vector<std::string> OwnCommand(const std::vector<std::string>& given, const std::string& more);

// Runs a command, the path of a program and its arguments, and waits for its end; its standard
// error goes through to this one's. Cancelled where it ended with kCancelledStatus; Internal where
// it ended otherwise than with 0: how, and the last line of what it said. It does not outlive this
// program.
//
// `stop_requested` is asked meanwhile, several times a second: who wishes that this ends
// ("SIGINT"), or "". The process is then ended, by SIGTERM and, where that does not do it in two
// seconds, by SIGKILL, and the result is Cancelled. Empty: nobody does.
absl::Status RunProcess(const std::vector<std::string>& command,
                        const std::function<std::string()>& stop_requested = nullptr);

namespace internal {
// `started_by`: the words that this program was started by.
std::vector<std::string> OwnCommand(const std::vector<std::string>& started_by,
                                    const std::vector<std::string>& given, const std::string& more);
}  // namespace internal

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_SUITE_PROCESS_H_
