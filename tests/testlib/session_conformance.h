// Tests of sessions of several processes, to be run over every transport. Instantiate
// SessionConformanceTest with yours:
//   INSTANTIATE_TEST_SUITE_P(Gloo, SessionConformanceTest, SessionCases(transport),
//                            SessionCaseName);
#ifndef DPIPE_TESTS_TESTLIB_SESSION_CONFORMANCE_H_
#define DPIPE_TESTS_TESTLIB_SESSION_CONFORMANCE_H_

#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "core/base/status.h"
#include "core/proto/plan.pb.h"
#include "gtest/gtest.h"
#include "tests/testlib/process_sessions.h"

namespace dpipe::testlib {

// Trains by ProcessSessions::RunApart with TrainAll over the transport. Returns a status per
// process.
using RunOverTransport =
    std::function<std::vector<absl::Status>(const ProcessSessions& sessions, const Plan& plan,
                                            const JobShape& shape, SessionOutcome* outcome)>;

using SessionCase = std::tuple<RunOverTransport, std::string, JobShape>;

class SessionConformanceTest : public ::testing::TestWithParam<SessionCase>,
                               protected ProcessSessions {};

// Strategies of every kind, with one and with several ranks per process.
inline auto SessionCases(const RunOverTransport& run) {
  return ::testing::Combine(::testing::Values(run),
                            ::testing::Values("data_parallel", "zero3", "1f1b", "diffusionpipe",
                                              "opendiffusionpipe", "chimera"),
                            ::testing::Values(JobShape{2, 1}, JobShape{4, 1}, JobShape{2, 2}));
}

inline std::string SessionCaseName(const ::testing::TestParamInfo<SessionCase>& info) {
  return std::get<1>(info.param) + "_" + JobShapeName(std::get<2>(info.param));
}

}  // namespace dpipe::testlib

#endif  // DPIPE_TESTS_TESTLIB_SESSION_CONFORMANCE_H_
