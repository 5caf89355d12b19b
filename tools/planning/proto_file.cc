#include "tools/planning/proto_file.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/cost/validate.h"
#include "core/schedule/file_formats/plan_io.h"
#include "core/schedule/verification/verify.h"

namespace dpipe::tools {
namespace {

constexpr int64_t kMaxBinaryBytes = int64_t{2} << 30;  // maximum size of a protobuf message

bool IsText(const std::string& path) {
  return absl::EndsWith(path, ".textproto") || absl::EndsWith(path, ".pbtxt");
}

bool IsBinary(const std::string& path) {
  return absl::EndsWith(path, ".pb") || absl::EndsWith(path, ".binpb");
}

absl::Status InFile(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(path, ": ", std::string(status.message())));
}

absl::Status MadeForAnother(const std::string& path, const std::string& what,
                            const std::string& planned, const std::string& given) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": the plan was made for another ", what, " (its fingerprint is ", planned,
                   ", that of --", what, " is ", given, "); --what_if uses it anyway, if it fits"));
}

}  // namespace

absl::Status CheckProtoPath(const std::string& path) {
  if (IsText(path) || IsBinary(path)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": the name must end in .textproto or .pbtxt (text), or in .pb or .binpb (binary)"));
}

absl::Status ReadProto(const std::string& path, google::protobuf::Message* message) {
  // The name of a pipe has no extension; pipes carry text.
  if (IsText(path) || absl::StartsWith(path, "/dev/")) return ReadTextProto(path, message);
  DPIPE_RETURN_IF_ERROR(CheckProtoPath(path));
  DPIPE_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kMaxBinaryBytes));
  if (message->ParseFromString(bytes)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", bytes.size(), " bytes are not a ",
                                                 message->GetTypeName(), " in the wire format"));
}

absl::Status WriteProto(const std::string& path, const google::protobuf::Message& message) {
  DPIPE_RETURN_IF_ERROR(CheckProtoPath(path));
  DPIPE_RETURN_IF_ERROR(MakeParentFolder(path));
  if (IsText(path)) return WriteTextProto(path, message);
  std::string bytes;
  if (!message.SerializeToString(&bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": a ", message.GetTypeName(), " of more than 2 GiB cannot be written"));
  }
  return WriteFileAtomically(path, bytes);
}

absl::StatusOr<ClusterSpec> ReadCluster(const std::string& path) {
  ClusterSpec cluster;
  DPIPE_RETURN_IF_ERROR(ReadProto(path, &cluster));
  const absl::Status status = ValidateCluster(cluster);
  if (!status.ok()) return InFile(path, status);
  return cluster;
}

absl::StatusOr<CostModel> ReadCostModel(const std::string& profile_path,
                                        const std::string& cluster_path) {
  ModelProfile profile;
  DPIPE_RETURN_IF_ERROR(ReadProto(profile_path, &profile));
  const absl::Status profile_status = ValidateProfile(profile);
  if (!profile_status.ok()) return InFile(profile_path, profile_status);
  DPIPE_ASSIGN_OR_RETURN(const ClusterSpec cluster, ReadCluster(cluster_path));
  return CostModel::Create(profile, cluster);
}

absl::StatusOr<Plan> ReadVerifiedPlan(const std::string& path, const CostModel& cost,
                                      bool what_if) {
  Plan plan;
  DPIPE_RETURN_IF_ERROR(ReadProto(path, &plan));
  const std::string profile = Fingerprint(cost.profile()), cluster = Fingerprint(cost.cluster());
  const bool same_profile = plan.profile_fingerprint() == profile;
  const bool same_cluster = plan.cluster_fingerprint() == cluster;
  if (!what_if) {
    if (!same_profile) {
      return MadeForAnother(path, "profile", plan.profile_fingerprint(), profile);
    }
    if (!same_cluster) {
      return MadeForAnother(path, "cluster", plan.cluster_fingerprint(), cluster);
    }
  } else if (!same_profile || !same_cluster) {
    plan.set_profile_fingerprint(profile);
    plan.set_cluster_fingerprint(cluster);
    plan.clear_prediction();
  }
  const absl::Status status = VerifyPlan(plan, cost);
  if (!status.ok()) return InFile(path, status);
  return plan;
}

absl::StatusOr<Trace> ReadTrace(const std::string& path) {
  Trace trace;
  DPIPE_RETURN_IF_ERROR(ReadProto(path, &trace));
  return trace;
}

}  // namespace dpipe::tools
