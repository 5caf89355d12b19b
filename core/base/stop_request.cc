#include "core/base/stop_request.h"

#include <cstring>

namespace dpipe {
namespace {

// Written by the handler: nothing but a sig_atomic_t may be.
volatile std::sig_atomic_t noted_signal = 0;

void Note(int number) { noted_signal = number; }

}  // namespace

StopRequest::StopRequest() {
  noted_signal = 0;
  struct sigaction action;
  std::memset(&action, 0, sizeof(action));
  action.sa_handler = Note;
  sigemptyset(&action.sa_mask);
  // The default action comes back with the first signal; reads and writes that it meets go on.
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigaction(SIGINT, &action, &old_int_);
  sigaction(SIGTERM, &action, &old_term_);
}

StopRequest::~StopRequest() {
  sigaction(SIGINT, &old_int_, nullptr);
  sigaction(SIGTERM, &old_term_, nullptr);
}

const char* StopRequest::signal() const {
  switch (noted_signal) {
    case SIGINT:
      return "SIGINT";
    case SIGTERM:
      return "SIGTERM";
    default:
      return nullptr;
  }
}

}  // namespace dpipe
