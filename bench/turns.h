// Two programs that take turns on one machine, so that whatever else it does hits both alike.
//
// A referee starts each with a pair of pipes. A program says by one byte that it is ready, and goes
// on when it is sent one; what it does until it says so again is its turn. The first turn needs no
// permission: the referee starts the second program when the first has said that it is ready.
#ifndef DPIPE_BENCH_TURNS_H_
#define DPIPE_BENCH_TURNS_H_

#include <string>

#include "core/base/status.h"

namespace dpipe::bench {

// Ends of the pipes as a program gets them, "READ,WRITE": descriptors that are open.
struct TurnPipes {
  int read_fd = -1;
  int write_fd = -1;
};

// InvalidArgument where `text` is not two numbers of open descriptors.
absl::StatusOr<TurnPipes> ParseTurnPipes(const std::string& text);

// A player's: says that it is ready and waits for its turn. Cancelled where the referee is gone.
absl::Status WaitForTurn(const TurnPipes& pipes);

// The referee's: waits until the player is ready; false where it has ended.
absl::StatusOr<bool> WaitUntilReady(const TurnPipes& pipes);
// Gives the player its turn; it may have ended.
void GiveTurn(const TurnPipes& pipes);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_TURNS_H_
