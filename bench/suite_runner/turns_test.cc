#include "bench/suite_runner/turns.h"

#include <unistd.h>

#include <string>
#include <thread>

#include "gtest/gtest.h"

namespace dpipe::bench {
namespace {

// A player and its referee in one process.
struct Pair {
  Pair() {
    int to_player[2], to_referee[2];
    EXPECT_EQ(pipe(to_player) + pipe(to_referee), 0);
    player = {to_player[0], to_referee[1]};
    referee = {to_referee[0], to_player[1]};
  }
  TurnPipes player, referee;
};

TEST(TurnsTest, PlayersMoveOnlyInTheirTurn) {
  std::string order;
  Pair a, b;
  const auto play = [&order](const TurnPipes& pipes, char name) {
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(WaitForTurn(pipes).ok());
      order += name;
    }
    close(pipes.write_fd);
  };
  std::thread first(play, a.player, 'a');
  ASSERT_TRUE(*WaitUntilReady(a.referee));
  std::thread second(play, b.player, 'b');
  ASSERT_TRUE(*WaitUntilReady(b.referee));
  for (Pair* pair : {&a, &b, &b, &a}) {
    GiveTurn(pair->referee);
    ASSERT_TRUE(*WaitUntilReady(pair->referee));
  }
  for (Pair* pair : {&a, &b}) {
    GiveTurn(pair->referee);
    EXPECT_FALSE(*WaitUntilReady(pair->referee)) << "it has ended";
  }
  first.join(), second.join();
  EXPECT_EQ(order, "abbaab");
}

TEST(TurnsTest, ARefereeThatIsGoneEndsThePlayer) {
  Pair pair;
  close(pair.referee.write_fd);
  EXPECT_EQ(WaitForTurn(pair.player).code(), absl::StatusCode::kCancelled);
}

TEST(TurnsTest, PipesAreTwoOpenDescriptors) {
  EXPECT_TRUE(ParseTurnPipes("0,1").ok());
  for (const char* wrong : {"", "0", "0,1,2", "a,b", "0,987", "-1,1"}) {
    EXPECT_FALSE(ParseTurnPipes(wrong).ok()) << wrong;
  }
}

}  // namespace
}  // namespace dpipe::bench
