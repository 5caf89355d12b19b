#include "core/comm/rendezvous/socket.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
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

// Returns connected sockets with small buffers.
Ends Connected() {
  auto listener = ListenOnLoopback();
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

// Receives `size` bytes and no more, or all bytes until the sender closes.
size_t Take(const Socket& receiver, size_t size) {
  char piece[4096];
  size_t taken = 0;
  while (taken < size) {
    pollfd entry = {receiver.fd(), POLLIN, 0};
    if (poll(&entry, 1, 60000) <= 0) break;
    const ssize_t count = recv(receiver.fd(), piece, std::min(sizeof(piece), size - taken), 0);
    if (count <= 0) break;
    taken += count;
  }
  return taken;
}

TEST(SocketTest, ASlowReaderIsWaitedForAsLongAsItTakesSomething) {
  Ends ends = Connected();
  const std::string sent(4 << 20, 'x');
  // 30 pieces, one every twentieth of a deadline: longer than one deadline in total.
  // Socket::Receive would read for as long as the sender sends, get ahead of the schedule, and then
  // read nothing for long.
  constexpr absl::Duration kDeadline = absl::Seconds(2);
  constexpr int kPieces = 30;
  size_t taken = 0;
  std::thread reader([&] {
    const absl::Time begin = absl::Now();
    for (int piece = 1; piece <= kPieces; ++piece) {
      absl::SleepFor(begin + piece * kDeadline / 20 - absl::Now());
      const size_t due = piece * sent.size() / kPieces;
      taken += Take(ends.receiver, due - taken);
      if (taken < due) return;  // the sender has given up
    }
  });
  const absl::Status status = ends.sender.SendAll(sent, kDeadline);
  EXPECT_TRUE(status.ok()) << status;
  ends.sender = Socket();
  reader.join();
  EXPECT_EQ(taken, sent.size());
}

TEST(SocketTest, SendFailsIfThePeerReadsNothing) {
  Ends ends = Connected();
  const absl::Status status =
      ends.sender.SendAll(std::string(64 << 20, 'x'), absl::Milliseconds(20));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("has read nothing for 20ms"));
}

TEST(SocketTest, AConnectionToItselfIsSeen) {
  const Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(socket.fd(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  EXPECT_FALSE(IsConnectedToItself(socket));
  ASSERT_EQ(connect(socket.fd(), reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_TRUE(IsConnectedToItself(socket));

  const Ends ends = Connected();
  EXPECT_FALSE(IsConnectedToItself(ends.sender));
  EXPECT_FALSE(IsConnectedToItself(ends.receiver));
}

TEST(SocketTest, OneCallTakesABoundedAmount) {
  auto listener = ListenOnLoopback();
  ASSERT_TRUE(listener.ok()) << listener.status();
  auto sender = ConnectTcp("127.0.0.1", listener->port(), absl::Seconds(60));
  ASSERT_TRUE(sender.ok()) << sender.status();
  pollfd entry = {listener->fd(), POLLIN, 0};
  ASSERT_GT(poll(&entry, 1, 60000), 0);
  Socket receiver = AcceptTcp(*listener);
  const size_t size = 8 * Socket::kMaxAtOnce;
  std::thread sending(
      [&] { EXPECT_TRUE(sender->SendAll(std::string(size, 'x'), absl::Seconds(60)).ok()); });
  std::string all;
  while (all.size() < size) {
    pollfd arrived = {receiver.fd(), POLLIN, 0};
    if (poll(&arrived, 1, 60000) <= 0) break;
    const size_t before = all.size();
    EXPECT_EQ(receiver.Receive(&all), Socket::Outcome::kData);
    EXPECT_LE(all.size() - before, Socket::kMaxAtOnce);
  }
  sending.join();
  EXPECT_EQ(all.size(), size);
}

TEST(SocketTest, TheLoopbackIsForThisHostAlone) {
  auto listener = ListenOnLoopback();
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_EQ(listener->LocalAddress(), "127.0.0.1");
  EXPECT_TRUE(ConnectTcp("127.0.0.1", listener->port(), absl::Seconds(60)).ok());
}

// True if connecting succeeds. The address is one of this machine, distinct from all others.
bool IsReached(const std::string& address, int port) {
  return ConnectTcp(address, port, absl::Milliseconds(20)).ok();
}

TEST(SocketTest, OneAddressIsListenedOnAndNoOther) {
  // All of 127.0.0.0/8 belongs to this host.
  const auto listeners = ListenAt("127.0.0.7", 0, /*on_several_hosts=*/true);
  ASSERT_TRUE(listeners.ok()) << listeners.status();
  ASSERT_EQ(listeners->size(), 1);
  const int port = (*listeners)[0].port();
  EXPECT_EQ((*listeners)[0].LocalAddress(), "127.0.0.7");
  EXPECT_TRUE(IsReached("127.0.0.7", port));
  EXPECT_FALSE(IsReached("127.0.0.1", port));
  EXPECT_FALSE(IsReached("::1", port));
}

TEST(SocketTest, LocalhostIsTheLoopbackAlsoForSeveralHosts) {
  const auto listeners = ListenAt("localhost", 0, /*on_several_hosts=*/true);
  ASSERT_TRUE(listeners.ok()) << listeners.status();
  for (const Socket& listener : *listeners) {
    EXPECT_THAT(listener.LocalAddress(), ::testing::AnyOf("127.0.0.1", "::1"));
  }
}

// As if a name belonged to a machine that forwards to this host: 192.0.2.0/24 is unassigned.
TEST(SocketTest, AnAddressThatIsNotHereIsListenedForOnAll) {
  const auto listeners = ListenAt("192.0.2.1", 0, /*on_several_hosts=*/true);
  ASSERT_TRUE(listeners.ok()) << listeners.status();
  ASSERT_EQ(listeners->size(), 1);
  EXPECT_TRUE(IsReached("127.0.0.7", (*listeners)[0].port()));
}

TEST(SocketTest, ATakenPortIsNamed) {
  const auto first = ListenOnLoopback();
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = ListenAt("127.0.0.1", first->port(), /*on_several_hosts=*/false);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr("cannot listen on 127.0.0.1:" + std::to_string(first->port())));
}

TEST(SocketTest, NoMoreIsReceivedThanAskedFor) {
  Ends ends = Connected();
  ASSERT_TRUE(ends.sender.SendAll("abcdef", absl::Seconds(60)).ok());
  pollfd entry = {ends.receiver.fd(), POLLIN, 0};
  ASSERT_GT(poll(&entry, 1, 60000), 0);
  std::string data;
  EXPECT_EQ(ends.receiver.Receive(&data, 4), Socket::Outcome::kData);
  EXPECT_EQ(data, "abcd");
}

}  // namespace

}  // namespace dpipe
