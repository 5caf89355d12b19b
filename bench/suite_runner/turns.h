// Lets two programs take turns on one machine, so that other work on it affects both alike.
//
// A referee starts each program with a pair of pipes. A program writes one byte when it is ready,
// and continues when it receives one. Its turn lasts until it reports that it is ready again. The
// first turn needs no permission: the referee starts the second program when the first one is
// ready.
#ifndef DPIPE_BENCH_SUITE_RUNNER_TURNS_H_
#define DPIPE_BENCH_SUITE_RUNNER_TURNS_H_

#include <string>

#include "core/base/status.h"

namespace dpipe::bench {

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

#endif  // DPIPE_BENCH_SUITE_RUNNER_TURNS_H_
