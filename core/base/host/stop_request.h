// A request to stop: SIGINT (Ctrl-C), SIGTERM (sent by schedulers) or SIGHUP (the terminal was
// closed).
#ifndef DPIPE_CORE_BASE_HOST_STOP_REQUEST_H_
#define DPIPE_CORE_BASE_HOST_STOP_REQUEST_H_

#include <array>
#include <csignal>

#include "absl/strings/string_view.h"

namespace dpipe {

// The message for the first signal.
inline constexpr char kStopAcknowledgment[] =
    "saving and ending after this step; a second signal ends at once, without saving";

// While one exists, the first of these signals is only recorded, so that the program can finish and
// save its work. A second SIGINT or SIGTERM has its default effect. A second SIGHUP is ignored,
// because closing a terminal may send two. SIGHUP stays ignored if it was ignored before, as under
// nohup. At most one StopRequest may exist at a time.
class StopRequest {
 public:
  // `acknowledgment` is written to standard error after the signal's name when the first signal
  // arrives; null writes nothing. It must outlive this object.
  explicit StopRequest(const char* acknowledgment = nullptr);
  ~StopRequest();
  // Replaces the acknowledgment. Thread-safe.
  void Acknowledge(const char* acknowledgment);
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  // Returns "SIGINT", "SIGTERM" or "SIGHUP", or null if no signal has arrived. Thread-safe.
  const char* signal() const;

 private:
  std::array<struct sigaction, 3> old_;
};

// True if a signal has arrived since the last StopRequest was made. Thread-safe.
bool SignalWasNoted();

// Returns the number of the signal whose name begins `text`, as in "SIGTERM to rank 2", or 0 if
// there is none.
int SignalNamed(absl::string_view text);

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_HOST_STOP_REQUEST_H_
