// A user's wish to stop, as SIGINT (Ctrl-C) or SIGTERM (what schedulers send).
#ifndef DPIPE_CORE_BASE_STOP_REQUEST_H_
#define DPIPE_CORE_BASE_STOP_REQUEST_H_

#include <csignal>

namespace dpipe {

// While one exists, the first of these signals is only noted, so that work can be finished and
// saved; the second does what it always does. At most one exists at a time.
class StopRequest {
 public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  // "SIGINT", "SIGTERM", or null where none has come.
  const char* signal() const;

 private:
  struct sigaction old_int_, old_term_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_STOP_REQUEST_H_
