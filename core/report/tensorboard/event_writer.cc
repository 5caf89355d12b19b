#include "core/report/tensorboard/event_writer.h"

#include <chrono>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/files/file.h"
#include "core/base/host/host_name.h"
#include "core/report/tensorboard/record.h"

namespace dpipe::report::tensorboard {
namespace {

constexpr char kFileVersion[] = "brain.Event:2";
constexpr int kStringType = 7;
constexpr int kSessionStart = 1;

}  // namespace

absl::StatusOr<std::unique_ptr<EventWriter>> EventWriter::Create(const Options& options) {
  DPIPE_RETURN_IF_ERROR(MakeFolder(options.folder));
  auto writer = std::unique_ptr<EventWriter>(new EventWriter(options));
  const std::string host = HostName();
  // TensorBoard reads a folder's files in alphabetical order.
  const std::string stem =
      absl::StrCat(options.folder, "/events.out.tfevents.",
                   absl::StrFormat("%010d", static_cast<int64_t>(writer->Now())), ".",
                   host.empty() ? "host" : host);
  std::error_code error;
  for (int number = 0; number == 0 || std::filesystem::exists(writer->path_, error); ++number) {
    writer->path_ = absl::StrCat(stem, ".", number);
  }
  DPIPE_ASSIGN_OR_RETURN(writer->file_, AppendFile::Open(writer->path_, AppendFile::Start::kEmpty));
  Event version;
  version.set_file_version(kFileVersion);
  writer->Write(std::move(version));
  if (options.first_step > 0) {
    Event start;
    start.set_step(options.first_step + 1);
    start.mutable_session_log()->set_status(kSessionStart);
    writer->Write(std::move(start));
  }
  DPIPE_RETURN_IF_ERROR(writer->Flush());
  return writer;
}

void EventWriter::Scalars(int64_t step, const std::vector<std::pair<std::string, double>>& values) {
  Event event;
  event.set_step(step);
  for (const auto& [tag, value] : values) {
    SummaryValue* summary = event.mutable_summary()->add_value();
    summary->set_tag(tag);
    summary->set_simple_value(static_cast<float>(value));
  }
  Write(std::move(event));
}

void EventWriter::Image(int64_t step, const std::string& tag, int width, int height,
                        const std::string& png) {
  Event event;
  event.set_step(step);
  SummaryValue* summary = event.mutable_summary()->add_value();
  summary->set_tag(tag);
  ImageSummary* image = summary->mutable_image();
  image->set_width(width);
  image->set_height(height);
  image->set_colorspace(3);
  image->set_encoded(png);
  Write(std::move(event));
}

void EventWriter::Text(int64_t step, const std::string& tag, const std::string& text) {
  Event event;
  event.set_step(step);
  SummaryValue* summary = event.mutable_summary()->add_value();
  summary->set_tag(tag);
  summary->mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  summary->mutable_tensor()->set_dtype(kStringType);
  summary->mutable_tensor()->add_string_val(text);
  Write(std::move(event));
}

absl::Status EventWriter::Flush() { return file_->Flush(); }

double EventWriter::Now() const {
  if (options_.clock) return options_.clock();
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void EventWriter::Write(Event event) {
  event.set_wall_time(Now());
  file_->Append(FrameRecord(event.SerializeAsString()));
}

}  // namespace dpipe::report::tensorboard
