// A rank whose network is cut, or drops all packets: the others name it in time, and it names them.
// Each process has its own network namespace, connected to the others' by a bridge.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testlib/process_job.h"
#include "tests/testlib/run_program.h"

namespace dpipe {
namespace {

using ::testing::HasSubstr;
using testlib::ProcessJob;

constexpr int kProcesses = 3;
constexpr char kIp[] = "/usr/sbin/ip";

int Run(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()); }

// Namespaces for the processes and for the bridge, with names that no other test uses.
class Network {
 public:
  Network() : prefix_(absl::StrCat("dpipe", getpid(), "_")) {}
  ~Network() {
    for (int i = 0; i <= kProcesses; ++i) Run(absl::StrCat(kIp, " netns del ", Name(i)));
  }

  // Returns true if this user and machine can have one.
  bool Create() {
    bool good = true;
    const auto ip = [&](const std::string& words) {
      good = good && Run(absl::StrCat(kIp, " ", words)) == 0;
    };
    for (int i = 0; i <= kProcesses; ++i) ip(absl::StrCat("netns add ", Name(i)));
    ip(absl::StrCat("-n ", hub(), " link add name bridge type bridge"));
    ip(absl::StrCat("-n ", hub(), " link set bridge up"));
    for (int i = 0; i < kProcesses; ++i) {
      ip(absl::StrCat("-n ", hub(), " link add port", i, " type veth peer name net netns ",
                      Name(i)));
      ip(absl::StrCat("-n ", hub(), " link set port", i, " master bridge up"));
      ip(absl::StrCat("-n ", Name(i), " addr add ", Address(i), "/24 dev net"));
      ip(absl::StrCat("-n ", Name(i), " link set net up"));
      ip(absl::StrCat("-n ", Name(i), " link set lo up"));
    }
    return good;
  }

  std::string Name(int process) const { return absl::StrCat(prefix_, process); }
  static std::string Address(int process) { return absl::StrCat("10.77.0.", process + 1); }
  void Cut(int process) {
    ASSERT_EQ(Run(absl::StrCat(kIp, " -n ", hub(), " link set port", process, " down")), 0);
  }
  // Redirects packets between this process and the others to an address that nobody has, so that
  // they are sent but never arrive.
  void Swallow(int process) {
    const auto mislead = [&](int from, int to) {
      ASSERT_EQ(Run(absl::StrCat(kIp, " -n ", Name(from), " neigh replace ", Address(to),
                                 " lladdr 02:00:00:00:00:99 dev net nud permanent")),
                0);
    };
    for (int i = 0; i < kProcesses; ++i) {
      if (i == process) continue;
      mislead(i, process);
      mislead(process, i);
    }
  }

 private:
  std::string hub() const { return Name(kProcesses); }

  const std::string prefix_;
};

class NetworkCutTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!network_.Create()) {
      GTEST_SKIP() << "network namespaces need root and " << kIp << ", which this user or machine "
                   << "does not have";
    }
    const std::string images = ::testing::TempDir() + "/images";
    const auto made = testlib::RunProgram("data/make_dataset", {"--out=" + images, "--count=32"});
    ASSERT_EQ(made.exit_code, 0) << made.err;
    testlib::ProcessJobOptions options;
    options.program = "tools/train";
    options.num_processes = kProcesses;
    options.master = Network::Address(0);
    options.port = 29400;  // of this network, in which there is nobody else
    const std::string out = absl::StrCat(
        ::testing::TempDir(), "/", ::testing::UnitTest::GetInstance()->current_test_info()->name());
    log_ = out + "/log.jsonl";
    options.consoles = out + ".console";
    options.flags = {"--backend=cpu",      "--data=" + images, "--out=" + out,
                     "--strategy=1f1b",    "--global_batch=6", "--micro_batches=3",
                     "--frozen_quantum=1", "--steps=100000",   "--minutes=0",
                     "--samples=false",    "--job.silence=3",  "--output.tensorboard=false"};
    for (int i = 0; i < kProcesses; ++i) {
      options.wrappers.push_back({kIp, "netns", "exec", network_.Name(i)});
    }
    options.deadline_s = 120;
    auto job = ProcessJob::Create(options);
    ASSERT_TRUE(job.ok()) << job.status();
    job_ = *std::move(job);
    job_->StartAll();
    while (!std::filesystem::exists(log_) && !job_->program(0).Poll()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ASSERT_FALSE(job_->program(0).Poll()) << job_->Output(0);
  }

  // The others must name rank 2; the first one notices and tells the second.
  void ExpectLostRankIsNamed() {
    for (int i = 0; i < kProcesses; ++i) {
      EXPECT_EQ(job_->ExitCode(i), 1) << "rank " << i << ": " << job_->Output(i);
    }
    for (int i : {0, 1}) {
      EXPECT_THAT(job_->Output(i), HasSubstr("rank 2 (pid "));
      EXPECT_THAT(job_->Output(i), HasSubstr("has sent nothing for 3s: it is frozen, or its "
                                             "network is cut"));
      EXPECT_THAT(job_->Output(i), HasSubstr(", instruction "));
    }
    EXPECT_THAT(job_->Output(2), HasSubstr("has sent nothing for 3s: it is frozen, or the "
                                           "network between 10.77.0.1:29400 and rank 2"));
  }

  Network network_;
  std::string log_;
  std::unique_ptr<ProcessJob> job_;
};

TEST_F(NetworkCutTest, CutLinkIsNamed) {
  network_.Cut(2);
  ExpectLostRankIsNamed();
}

TEST_F(NetworkCutTest, NetworkThatDropsEverythingIsNamed) {
  network_.Swallow(2);
  ExpectLostRankIsNamed();
}

}  // namespace
}  // namespace dpipe
