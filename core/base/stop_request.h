// A request to stop, as SIGINT (Ctrl-C), SIGTERM (what schedulers send) or SIGHUP (the terminal
// has gone).
#ifndef DPIPE_CORE_BASE_STOP_REQUEST_H_
#define DPIPE_CORE_BASE_STOP_REQUEST_H_

#include <array>
#include <csignal>

#include "absl/strings/string_view.h"

namespace dpipe {

// What is written when the first signal comes.
inline constexpr char kStopAcknowledgment[] =
    "saving and ending after this step; a second signal ends at once, without saving";

// While one exists, the first of these signals is only noted, so that work can be finished and
// saved; a second SIGINT or SIGTERM does what it always does. (A terminal that goes may send SIGHUP
// twice, which means the same once.) SIGHUP stays ignored where it was, as by nohup. At most one
// exists at a time.
class StopRequest {
 public:
  // `acknowledgment`: written to standard error behind the signal's name when the first one comes;
  // null: nothing is. Outlives this.
  explicit StopRequest(const char* acknowledgment = nullptr);
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  // "SIGINT", "SIGTERM", "SIGHUP", or null where none has come. Thread-safe.
  const char* signal() const;

 private:
  std::array<struct sigaction, 3> old_;
};

// Whether a signal has come since the last StopRequest was made. Thread-safe.
bool SignalWasNoted();

// The number of the signal whose name `text` begins with, as "SIGTERM to rank 2"; 0 where there is
// none.
int SignalNamed(absl::string_view text);

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_STOP_REQUEST_H_
