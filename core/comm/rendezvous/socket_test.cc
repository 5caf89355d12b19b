#include "core/comm/rendezvous/socket.h"

#include <poll.h>
#include <sys/socket.h>

#include <thread>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::HasSubstr;

struct Ends {
  Socket sender, receiver;
};

// Connected, with little room in between.
Ends Connected() {
  auto listener = ListenTcp(0);
  EXPECT_TRUE(listener.ok()) << listener.status();
  const int room = 16 * 1024;
  setsockopt(listener->fd(), SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
  auto sender = ConnectTcp("localhost", listener->port(), absl::Seconds(60));
  EXPECT_TRUE(sender.ok()) << sender.status();
  setsockopt(sender->fd(), SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
  pollfd entry = {listener->fd(), POLLIN, 0};
  poll(&entry, 1, 60000);
  return {*std::move(sender), AcceptTcp(*listener)};
}

TEST(SocketTest, ASlowReaderIsWaitedForAsLongAsItTakesSomething) {
  Ends ends = Connected();
  const std::string sent(4 << 20, 'x');
  constexpr absl::Duration kDeadline = absl::Seconds(1);
  std::string received;
  std::thread reader([&] {
    // Not all of it within one deadline.
    const absl::Time begin = absl::Now();
    for (int piece = 1; received.size() < sent.size(); ++piece) {
      absl::SleepFor(begin + piece * kDeadline / 10 - absl::Now());
      while (received.size() < std::min(sent.size(), piece * sent.size() / 15)) {
        ends.receiver.Receive(&received);
      }
    }
  });
  const absl::Status status = ends.sender.SendAll(sent, kDeadline);
  EXPECT_TRUE(status.ok()) << status;
  if (!status.ok()) ends.sender.SendAll(sent, absl::Seconds(60)).IgnoreError();
  reader.join();
}

TEST(SocketTest, WhoTakesNothingIsNotWaitedForAnyLonger) {
  Ends ends = Connected();
  const absl::Status status =
      ends.sender.SendAll(std::string(64 << 20, 'x'), absl::Milliseconds(20));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("has taken nothing for 20ms"));
}

}  // namespace
}  // namespace dpipe
