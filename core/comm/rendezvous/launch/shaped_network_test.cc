#include "core/comm/rendezvous/launch/shaped_network.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/comm/rendezvous/launch/local_launcher.h"
#include "core/comm/rendezvous/socket.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::HasSubstr;

TEST(ShapedNetworkTest, SpeedsAreParsedAndShown) {
  EXPECT_EQ(ParseLinkSpeed("100mbit").value(), 1e8);
  EXPECT_EQ(ParseLinkSpeed("2.5gbit").value(), 2.5e9);
  EXPECT_EQ(ParseLinkSpeed("unshaped").value(), 0);
  for (const char* wrong : {"", "100", "mbit", "0mbit", "-1gbit", "nangbit", "1e9gbit", "1Gbit"}) {
    const auto speed = ParseLinkSpeed(wrong);
    EXPECT_FALSE(speed.ok()) << wrong;
    EXPECT_THAT(std::string(speed.status().message()), HasSubstr("1mbit to 1000gbit")) << wrong;
  }
  EXPECT_EQ(LinkSpeedText(1e8), "100 Mb/s");
  EXPECT_EQ(LinkSpeedText(2.5e9), "2.5 Gb/s");
  EXPECT_EQ(LinkSpeedText(0), "unshaped");
}

TEST(ShapedNetworkTest, NumberOfHostsIsBounded) {
  EXPECT_FALSE(ShapedNetwork::Create(0, 0).ok());
  EXPECT_FALSE(ShapedNetwork::Create(251, 0).ok());
}

// Sends `num_bytes` from host 1 to host 0 and returns the seconds that it takes.
double SecondsToSend(const ShapedNetwork& network, size_t num_bytes) {
  EXPECT_TRUE(network.Enter(0).ok());
  auto listeners = ListenAt(network.Address(0), 0, /*on_several_hosts=*/true);
  EXPECT_TRUE(network.Leave().ok());
  EXPECT_TRUE(listeners.ok()) << listeners.status();
  if (!listeners.ok()) return 0;
  const int port = (*listeners)[0].port();
  std::thread sender([&] {
    ASSERT_TRUE(network.Enter(1).ok());  // moves this thread only
    auto connection = ConnectTcp(network.Address(0), port, absl::Seconds(10));
    ASSERT_TRUE(connection.ok()) << connection.status();
    EXPECT_TRUE(connection->SendAll(std::string(num_bytes, 'x'), absl::Seconds(60)).ok());
  });
  Socket accepted;
  while (accepted.fd() < 0) accepted = AcceptTcp((*listeners)[0]);
  std::string data;
  const absl::Time start = absl::Now();
  while (data.size() < num_bytes && absl::Now() - start < absl::Seconds(60)) {
    if (accepted.Receive(&data) == Socket::Outcome::kNothing) absl::SleepFor(absl::Milliseconds(1));
  }
  sender.join();
  EXPECT_EQ(data.size(), num_bytes);
  return absl::ToDoubleSeconds(absl::Now() - start);
}

TEST(ShapedNetworkTest, LinksHaveTheirSpeed) {
  const auto network = ShapedNetwork::Create(2, 80e6);
  if (!network.ok()) GTEST_SKIP() << network.status();
  const double seconds = SecondsToSend(**network, 4'000'000);  // 0.4 s at 10 MB/s
  EXPECT_GT(seconds, 0.37);
  EXPECT_LT(seconds, 4.0) << "a loaded machine takes longer, but not ten times";
}

TEST(ShapedNetworkTest, ProcessesOfAJobAreItsHosts) {
  const auto network = ShapedNetwork::Create(2, 0);
  if (!network.ok()) GTEST_SKIP() << network.status();
  LaunchOptions options;
  options.num_processes = 2;
  options.network = network->get();
  options.program = "/bin/sh";
  options.arguments = {"-c",
                       "echo $MASTER_ADDR $LOCAL_RANK/$LOCAL_WORLD_SIZE; ip -o -4 address show"};
  testing::internal::CaptureStdout();
  const auto code = LaunchLocalProcesses(options);
  const std::string out = testing::internal::GetCapturedStdout();
  EXPECT_EQ(code.value_or(-1), 0);
  EXPECT_THAT(out, HasSubstr("[0] 10.213.0.1 0/1"));
  EXPECT_THAT(out, HasSubstr("[1] 10.213.0.1 0/1"));
  EXPECT_THAT(out, testing::ContainsRegex("\\[0\\] .*inet 10\\.213\\.0\\.1/24"));
  EXPECT_THAT(out, testing::ContainsRegex("\\[1\\] .*inet 10\\.213\\.0\\.2/24"));
}

TEST(ShapedNetworkTest, NothingIsLeft) {
  std::string namespace_path;
  {
    const auto network = ShapedNetwork::Create(1, 1e9);
    if (!network.ok()) GTEST_SKIP() << network.status();
  }
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child process is left";
  EXPECT_NE(system("ip netns list | grep -q ."), 0) << "a named namespace is left";
  EXPECT_NE(system("ip link show switch > /dev/null 2>&1"), 0) << "the switch is left";
}

}  // namespace
}  // namespace dpipe
