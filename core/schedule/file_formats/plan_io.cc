#include "core/schedule/file_formats/plan_io.h"

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/files/file.h"
#include "core/base/text/plain_text.h"
#include "core/proto/profile_text.h"
#include "core/schedule/file_formats/text_place.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"

namespace dpipe {
namespace {

// Keeps the first error instead of printing it.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  FirstError(const std::string& text, const google::protobuf::Descriptor& type)
      : text_(text), type_(type) {}

  // The parser counts lines and columns from 0, and passes -1 if it does not know them.
  void AddError(int line, int column, const std::string& message) override {
    if (!message_.empty()) return;
    const std::string field = FieldAt(text_, line, column, type_);
    message_ = absl::StrCat("line ", line + 1, ", column ", column + 1,
                            field.empty() ? "" : ", field ", field, ": ", message);
  }
  const std::string& message() const { return message_; }

 private:
  const std::string& text_;
  const google::protobuf::Descriptor& type_;
  std::string message_;
};

std::string HashOf(const google::protobuf::Message& message) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a: offset basis and prime for 64 bits
  for (unsigned char byte : message.SerializeAsString()) hash = (hash ^ byte) * 1099511628211u;
  return absl::StrFormat("%016x", hash);
}

}  // namespace

absl::Status ParseTextProto(const std::string& content, const std::string& source,
                            google::protobuf::Message* message) {
  DPIPE_ASSIGN_OR_RETURN(const std::string text, PlainText(content, source));
  FirstError error(text, *message->GetDescriptor());
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (parser.ParseFromString(text, message)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      source, ": ", error.message(), " (as a textproto of ", message->GetTypeName(), ")"));
}

absl::Status ReadTextProto(const std::string& path, google::protobuf::Message* message) {
  DPIPE_ASSIGN_OR_RETURN(const std::string text, ReadFileOrPipe(path));
  return ParseTextProto(text, path, message);
}

absl::Status WriteTextProto(const std::string& path, const google::protobuf::Message& message) {
  std::string text;
  if (const auto* profile = google::protobuf::DynamicCastToGenerated<ModelProfile>(&message)) {
    text = ProfileText(*profile);
  } else if (!google::protobuf::TextFormat::PrintToString(message, &text)) {
    return absl::InternalError(
        absl::StrCat(path, ": a ", message.GetTypeName(), " cannot be printed as text"));
  }
  return WriteFileAtomically(path, text);
}

absl::StatusOr<Plan> ReadPlan(const std::string& path) {
  Plan plan;
  DPIPE_RETURN_IF_ERROR(ReadTextProto(path, &plan));
  return plan;
}

absl::Status WritePlan(const std::string& path, const Plan& plan) {
  return WriteTextProto(path, plan);
}

std::string Fingerprint(const ModelProfile& profile) {
  ModelProfile counted = profile;
  counted.clear_provenance();
  return HashOf(counted);
}

std::string Fingerprint(const ClusterSpec& cluster) { return HashOf(cluster); }

}  // namespace dpipe
