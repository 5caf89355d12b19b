#include <sys/socket.h>

#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "core/comm/rendezvous/store/store_client.h"
#include "core/comm/rendezvous/store/store_frame.h"
#include "core/comm/rendezvous/store/store_server.h"
#include "core/comm/rendezvous/testing/bare_peer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::HasSubstr;

const JobSecret& Secret() {
  static const auto* const kSecret = new JobSecret(JobSecret::Random());
  return *kSecret;
}

std::unique_ptr<StoreServer> StartServer(StoreServerOptions options, int port = 0) {
  auto listener = ListenOnLoopback(port);
  EXPECT_TRUE(listener.ok()) << listener.status();
  return std::make_unique<StoreServer>(*std::move(listener), options);
}

StoreClientOptions ClientOptions(const StoreServer& server, int process, int num_processes) {
  StoreClientOptions options;
  options.host = "localhost";
  options.port = server.port();
  options.secret = Secret();
  options.process = process;
  options.num_processes = num_processes;
  options.name = absl::StrCat("rank ", process, " (pid 1)");
  return options;
}

// Joins all at once, as none returns before the last has joined.
std::vector<absl::StatusOr<std::unique_ptr<StoreClient>>> JoinAll(
    const std::vector<StoreClientOptions>& options) {
  std::vector<absl::StatusOr<std::unique_ptr<StoreClient>>> clients;
  for (size_t i = 0; i < options.size(); ++i) clients.emplace_back(absl::UnknownError(""));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < options.size(); ++i) {
    threads.emplace_back([&, i] { clients[i] = StoreClient::Join(options[i]); });
  }
  for (auto& thread : threads) thread.join();
  return clients;
}

StoreServerOptions Options(int num_processes) {
  StoreServerOptions options;
  options.secret = Secret();
  options.num_processes = num_processes;
  return options;
}

TEST(StoreTest, ValuesAreWaitedForAndReadByAll) {
  auto server = StartServer(Options(2));
  auto clients = JoinAll({ClientOptions(*server, 0, 2), ClientOptions(*server, 1, 2)});
  ASSERT_TRUE(clients[0].ok() && clients[1].ok());
  StoreClient &first = **clients[0], &second = **clients[1];
  EXPECT_EQ(second.NameOf(0), "rank 0 (pid 1)");
  EXPECT_FALSE(second.address().empty());
  std::thread waiting([&] {
    const auto value = second.Get("key", "a value");
    EXPECT_TRUE(value.ok()) << value.status();
    EXPECT_EQ(*value, std::string("a\0b", 3));
  });
  EXPECT_TRUE(first.Set("key", std::string("a\0b", 3)).ok());
  waiting.join();
  EXPECT_EQ(*first.Get("key", "a value"), std::string("a\0b", 3));
  const auto missing = first.Get("other", "what never comes", absl::Milliseconds(120));
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("rank 0 (pid 1) waited"));
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("for what never comes"));
}

// As when several ranks of a process look up the same peers.
TEST(StoreTest, ThreadsOfOneProcessReadTheSameKey) {
  auto server = StartServer(Options(1));
  auto client = StoreClient::Join(ClientOptions(*server, 0, 1));
  ASSERT_TRUE(client.ok()) << client.status();
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const auto value = (*client)->Get("key", "a value", absl::Seconds(30));
      EXPECT_TRUE(value.ok()) << value.status();
    });
  }
  EXPECT_TRUE((*client)->Set("key", "value").ok());
  for (auto& thread : threads) thread.join();
}

TEST(StoreTest, NotesComeInOrderToAWaitOrAHandler) {
  auto server = StartServer(Options(2));
  auto clients = JoinAll({ClientOptions(*server, 0, 2), ClientOptions(*server, 1, 2)});
  ASSERT_TRUE(clients[0].ok() && clients[1].ok());
  StoreClient &leader = **clients[0], &follower = **clients[1];
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(leader.SendNote(1, "command", absl::StrCat("do ", i)).ok());
    ASSERT_TRUE(follower.SendNote(0, "report", absl::StrCat("done ", i)).ok());
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(*follower.TakeNote("command", "a command"), absl::StrCat("do ", i));
  }
  EXPECT_EQ(*leader.TakeNote("report", "a report"), "done 0");
  std::vector<std::string> reports;
  absl::Mutex mutex;
  leader.OnNote("report", [&](const std::string& value) {
    absl::MutexLock lock(&mutex);
    reports.push_back(value);
  });
  ASSERT_TRUE(follower.SendNote(0, "report", "done 3").ok());
  absl::MutexLock lock(&mutex);
  auto all = [&] { return reports.size() == 3; };
  mutex.Await(absl::Condition(&all));
  EXPECT_EQ(reports, (std::vector<std::string>{"done 1", "done 2", "done 3"}));
}

TEST(StoreTest, AnotherRunsProcessIsNotLetIn) {
  StoreServerOptions server_options = Options(1);
  server_options.job = "today";
  auto server = StartServer(server_options);
  StoreClientOptions stale = ClientOptions(*server, 0, 1);
  stale.job = "yesterday";
  stale.join_deadline = absl::Milliseconds(300);
  const auto refused = StoreClient::Join(stale);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("refused: this store belongs to job 'today', not 'yesterday'"));
  StoreClientOptions own = ClientOptions(*server, 0, 1);
  own.job = "today";
  EXPECT_TRUE(StoreClient::Join(own).ok());
}

TEST(StoreTest, WrongCountsAndSecondComersAreRefusedWithBothNumbers) {
  auto server = StartServer(Options(2));
  const auto wrong = StoreClient::Join(ClientOptions(*server, 0, 3));
  EXPECT_THAT(std::string(wrong.status().message()),
              HasSubstr("it expects 3 processes, this store 2"));
  EXPECT_THAT(std::string(wrong.status().message()),
              HasSubstr(absl::StrCat("process 0 of 3 at localhost:", server->port())));
  auto clients = JoinAll({ClientOptions(*server, 0, 2), ClientOptions(*server, 1, 2)});
  ASSERT_TRUE(clients[0].ok() && clients[1].ok());
  const auto second = StoreClient::Join(ClientOptions(*server, 1, 2));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("process 1 has already joined"));
}

TEST(StoreTest, ErrorNamesMissingProcess) {
  StoreServerOptions options = Options(4);
  options.join_deadline = absl::Milliseconds(300);
  auto server = StartServer(options);
  const auto clients = JoinAll({ClientOptions(*server, 0, 4), ClientOptions(*server, 2, 4)});
  for (const auto& client : clients) {
    EXPECT_EQ(client.status().code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(std::string(client.status().message()), HasSubstr("only 2 of 4 processes joined"));
    EXPECT_THAT(std::string(client.status().message()), HasSubstr("missing: process 1, 3"));
  }
}

TEST(StoreTest, NoStoreIsAnErrorThatNamesThePlace) {
  auto listener = ListenOnLoopback();  // a port that is free once this is closed
  StoreClientOptions options;
  options.host = "127.0.0.1";
  options.port = listener->port();
  options.secret = Secret();
  *listener = Socket();
  options.join_deadline = absl::Milliseconds(200);
  const auto client = StoreClient::Join(options);
  EXPECT_EQ(client.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(client.status().message()),
              HasSubstr(absl::StrCat("no connection to 127.0.0.1:", options.port)));
  EXPECT_THAT(std::string(client.status().message()), HasSubstr("refused"));
}

TEST(StoreTest, AFailureWakesEverybodyAndTheFirstCounts) {
  auto server = StartServer(Options(3));
  auto clients = JoinAll(
      {ClientOptions(*server, 0, 3), ClientOptions(*server, 1, 3), ClientOptions(*server, 2, 3)});
  for (const auto& client : clients) ASSERT_TRUE(client.ok()) << client.status();
  absl::Notification told;
  (*clients[2])->AddFailureListener([&](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    told.Notify();
  });
  std::thread waiting([&] {
    const auto value = (*clients[1])->Get("never", "a key");
    EXPECT_EQ(value.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(value.status().message()), HasSubstr("for a key: disk full"));
  });
  (*clients[0])->Fail(absl::DataLossError("disk full"));
  (*clients[0])->Fail(absl::InternalError("something later"));
  waiting.join();
  told.WaitForNotification();
  for (const auto& client : clients) {
    EXPECT_EQ((*client)->failure(), absl::DataLossError("disk full"));
  }
}

// Joins with a connection that the test closes, or on which it sends nothing more.
BarePeer JoinByHand(const StoreServer& server, int process, int num_processes) {
  return BarePeer::AsJoined(server.port(), Secret(), process, num_processes);
}

TEST(StoreTest, AConnectionThatClosesIsADeath) {
  auto server = StartServer(Options(2));
  BarePeer dying = JoinByHand(*server, 1, 2);
  auto client = StoreClient::Join(ClientOptions(*server, 0, 2));
  ASSERT_TRUE(client.ok()) << client.status();
  dying.Close();
  ASSERT_TRUE((*client)->AwaitFailure(absl::Seconds(60)));
  EXPECT_THAT(std::string((*client)->failure().message()),
              HasSubstr("rank 1 (pid 7 on node2) has died"));
}

TEST(StoreTest, SilenceIsNamedAfterItsTime) {
  StoreServerOptions options = Options(2);
  options.silence = absl::Milliseconds(500);
  auto server = StartServer(options);
  const BarePeer silent = JoinByHand(*server, 1, 2);
  auto client = StoreClient::Join(ClientOptions(*server, 0, 2));
  ASSERT_TRUE(client.ok()) << client.status();
  ASSERT_TRUE((*client)->AwaitFailure(absl::Seconds(60)));
  EXPECT_THAT(std::string((*client)->failure().message()),
              HasSubstr("rank 1 (pid 7 on node2) has sent nothing for 500ms: it is frozen, or "
                        "its network is cut"));
}

// A process that has joined may wait longer than the permitted silence: the error names the missing
// process, not this one.
TEST(StoreTest, WaitingForOthersIsNoSilence) {
  StoreServerOptions options = Options(2);
  options.silence = absl::Milliseconds(100);
  options.join_deadline = absl::Milliseconds(1500);
  auto server = StartServer(options);
  const auto client = StoreClient::Join(ClientOptions(*server, 0, 2));
  EXPECT_THAT(std::string(client.status().message()), HasSubstr("missing: process 1"));
}

// A process that joins after the job's failure gets the reason and does not retry.
TEST(StoreTest, LateProcessGetsFailure) {
  auto server = StartServer(Options(3));
  BarePeer dying = JoinByHand(*server, 1, 3);
  dying.Close();
  StoreClientOptions late = ClientOptions(*server, 0, 3);
  late.join_deadline = absl::Seconds(30);
  late.silence = absl::Seconds(1);
  const absl::Status status = StoreClient::Join(late).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 (pid 7 on node2) has died"));
}

// The store may still be there when the next run begins at its port.
TEST(StoreTest, TheStoreOfAFailedRunSendsTheNextRunsProcessesAway) {
  auto server = StartServer(Options(2));
  auto clients = JoinAll({ClientOptions(*server, 0, 2), ClientOptions(*server, 1, 2)});
  ASSERT_TRUE(clients[0].ok() && clients[1].ok());
  (*clients[1])->Fail(absl::CancelledError("told by rank 1"));
  ASSERT_TRUE((*clients[0])->AwaitFailure(absl::Seconds(60)));
  for (int num_processes : {2, 3}) {
    StoreClientOptions next = ClientOptions(*server, 1, num_processes);
    next.join_deadline = absl::Milliseconds(300);
    const absl::Status status = StoreClient::Join(next).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("refused: an earlier run is ending here: told by rank 1"));
  }
  const std::vector<StoreClientOptions> next = {ClientOptions(*server, 0, 2),
                                                ClientOptions(*server, 1, 2)};
  const int port = server->port();
  std::thread going([&] {
    clients.clear();
    server = nullptr;
    server = StartServer(Options(2), port);
  });
  for (const auto& client : JoinAll(next)) EXPECT_TRUE(client.ok()) << client.status();
  going.join();
}

// As when process 0 ends before the others have left: a failure lets it go.
TEST(StoreTest, AStoreMayGoAfterAFailure) {
  auto server = StartServer(Options(2));
  auto clients = JoinAll({ClientOptions(*server, 0, 2), ClientOptions(*server, 1, 2)});
  ASSERT_TRUE(clients[0].ok() && clients[1].ok());
  *clients[0] = nullptr;
  std::thread ending([&] { server = nullptr; });
  (*clients[1])->Fail(absl::CancelledError("told by rank 1"));
  ending.join();
  EXPECT_EQ((*clients[1])->failure(), absl::CancelledError("told by rank 1"));
  EXPECT_EQ((*clients[1])->Get("key", "a key").status().code(), absl::StatusCode::kCancelled);
}

// A store played by the test, and a client that it has admitted.
struct PlayedStore {
  BarePeer connection;  // the store's end
  std::unique_ptr<StoreClient> client;
};

PlayedStore PlayStore(absl::Duration silence = absl::Seconds(20)) {
  PlayedStore played;
  auto listener = ListenOnLoopback();
  EXPECT_TRUE(listener.ok()) << listener.status();
  StoreClientOptions options;
  options.host = "localhost";
  options.port = listener->port();
  options.secret = Secret();
  options.num_processes = 2;
  options.process = 1;
  options.silence = silence;
  std::thread joining([&] {
    auto client = StoreClient::Join(options);
    EXPECT_TRUE(client.ok()) << client.status();
    if (client.ok()) played.client = *std::move(client);
  });
  played.connection = BarePeer::AsStore(*listener, Secret());
  StoreMessage welcome;
  welcome.mutable_joined()->add_names("rank 0 (pid 7 on node1)");
  welcome.mutable_joined()->add_names("rank 1 (pid 8 on node1)");
  played.connection.Say(welcome);
  joining.join();
  return played;
}

// A connection may reach another program, or its own end.
TEST(StoreTest, ImpostorStoreIsRejected) {
  auto listener = ListenOnLoopback();
  ASSERT_TRUE(listener.ok()) << listener.status();
  StoreClientOptions options;
  options.host = "127.0.0.1";
  options.port = listener->port();
  options.secret = Secret();
  std::thread joining([&] {
    const auto client = StoreClient::Join(options);
    EXPECT_TRUE(client.ok()) << client.status();
  });
  StoreMessage welcome;
  welcome.mutable_joined()->add_names("rank 0 (pid 7 on node1)");
  {  // it does not know the secret
    Socket stranger = AcceptOne(*listener);
    const std::string nonsense(kNonceBytes, 'x');
    EXPECT_TRUE(stranger.SendAll(nonsense, absl::Seconds(60)).ok());
    EXPECT_EQ(ReadUntilClosed(&stranger, kAnswerBytes).size(), kAnswerBytes);
    const std::string proof(kHmacBytes, 'x');
    EXPECT_TRUE(
        stranger.SendAll(proof + FrameWriter("key").Encode(welcome), absl::Seconds(60)).ok());
    EXPECT_EQ(ReadUntilClosed(&stranger), "") << "it is not told who comes";
  }
  {  // it knows the secret, but is not a store
    BarePeer process = BarePeer::AsStore(*listener, Secret());
    StoreMessage join;
    join.mutable_join()->set_protocol(kStoreProtocol);
    process.Say(join);
    ReadUntilClosed(&process.socket());
  }
  BarePeer store = BarePeer::AsStore(*listener, Secret());
  store.Say(welcome);
  joining.join();
}

TEST(StoreTest, AStoreThatDiesIsNamed) {
  PlayedStore played = PlayStore();
  ASSERT_NE(played.client, nullptr);
  played.connection.Close();
  ASSERT_TRUE(played.client->AwaitFailure(absl::Seconds(60)));
  EXPECT_EQ(played.client->failure(),
            absl::UnavailableError("rank 0 (pid 7 on node1), the host of the job's store, has "
                                   "died: its connection was closed"));
}

TEST(StoreTest, AStoreThatTalksNonsenseIsNotCalledDead) {
  PlayedStore played = PlayStore();
  ASSERT_NE(played.client, nullptr);
  played.connection.SayBytes("\xff\xff\xff\xff");
  ASSERT_TRUE(played.client->AwaitFailure(absl::Seconds(60)));
  EXPECT_EQ(played.client->failure(),
            absl::UnavailableError("rank 0 (pid 7 on node1), the host of the job's store, violates "
                                   "the protocol: a message of 4294967295 bytes; the maximum is "
                                   "268435456"));
}

// A message that was sent only in part cannot be continued.
TEST(StoreTest, AStoreThatReadsNothingIsTheJobsFailure) {
  PlayedStore played = PlayStore(/*silence=*/absl::Seconds(1));
  ASSERT_NE(played.client, nullptr);
  std::atomic<bool> done = false;
  std::thread alive([&] {  // sends signs of life without reading
    StoreMessage heartbeat;
    heartbeat.set_heartbeat(1);
    while (!done) {
      const std::string frame = played.connection.Encode(heartbeat);
      played.connection.socket().SendAll(frame, absl::Seconds(60)).IgnoreError();
      absl::SleepFor(absl::Milliseconds(20));
    }
  });
  const absl::Status status = played.client->Set("key", std::string(64 << 20, 'x'));
  EXPECT_EQ(status, played.client->failure());
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("rank 0 (pid 7 on node1), the host of the job's store, is not reading: "));
  EXPECT_EQ(played.client->Set("other", "value"), status);
  done = true;
  alive.join();
}

// The failure becomes known while the message is being sent.
TEST(StoreTest, CompletedSendSucceedsAndNextCallFails) {
  PlayedStore played = PlayStore(/*silence=*/absl::Seconds(60));
  ASSERT_NE(played.client, nullptr);
  std::atomic<bool> done = false;
  std::thread store([&] {
    char begin[4096];  // more than everything before it
    for (ssize_t size = 0; size < static_cast<ssize_t>(sizeof(begin));) {
      size = recv(played.connection.socket().fd(), begin, sizeof(begin), 0);
    }
    StoreMessage failure;
    failure.mutable_failure()->set_code(static_cast<int>(absl::StatusCode::kDataLoss));
    failure.mutable_failure()->set_message("disk full");
    played.connection.Say(failure);
    played.client->AwaitFailure(absl::Seconds(10));
    for (std::string rest; !done;) played.connection.socket().Receive(&rest);
  });
  const absl::Status sent = played.client->Set("key", std::string(64 << 20, 'x'));
  EXPECT_TRUE(sent.ok()) << sent;
  done = true;
  store.join();
  ASSERT_TRUE(played.client->AwaitFailure(absl::Seconds(60)));
  EXPECT_EQ(played.client->Set("other", "value"), absl::DataLossError("disk full"));
}

TEST(StoreTest, TooLongMessageIsRefusedAndTheJobContinues) {
  auto server = StartServer(Options(1));
  auto client = StoreClient::Join(ClientOptions(*server, 0, 1));
  ASSERT_TRUE(client.ok()) << client.status();
  const absl::Status status = (*client)->Set("key", std::string(kMaxFrameBytes, 'x'));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("a message of 268435"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("the maximum is 268435456"));
  EXPECT_TRUE((*client)->Set("key", "value").ok());
  EXPECT_EQ(*(*client)->Get("key", "a key"), "value");
}

TEST(StoreTest, WorksOverIpv6) {
  auto listeners = ListenAt("::1", 0, /*on_several_hosts=*/false);
  ASSERT_TRUE(listeners.ok()) << listeners.status();
  const StoreServer server(*std::move(listeners), Options(1));
  StoreClientOptions options = ClientOptions(server, 0, 1);
  options.host = "::1";
  options.join_deadline = absl::Seconds(2);
  const auto client = StoreClient::Join(options);
  if (!client.ok() &&
      std::string(client.status().message()).find("Cannot assign") != std::string::npos) {
    GTEST_SKIP() << "this system has no IPv6: " << client.status();
  }
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_EQ((*client)->address(), "::1");
}

}  // namespace
}  // namespace dpipe
