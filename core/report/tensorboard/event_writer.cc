#include "core/report/tensorboard/event_writer.h"

#include <chrono>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/files/crc32c.h"
#include "core/base/files/file.h"
#include "core/base/host/host_name.h"

namespace dpipe::report::tensorboard {

namespace {

constexpr uint32_t kMask = 0xa282ead8;
constexpr size_t kHeaderBytes = 12;
constexpr size_t kFooterBytes = 4;

std::string LittleEndian(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text.push_back(static_cast<char>(value >> (8 * i) & 0xff));
  return text;
}

uint64_t FromLittleEndian(absl::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    value |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  return value;
}

}  // namespace

uint32_t MaskedCrc32c(absl::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + kMask;
}

std::string FrameRecord(absl::string_view bytes) {
  const std::string length = LittleEndian(bytes.size(), 8);
  return absl::StrCat(length, LittleEndian(MaskedCrc32c(length), 4), bytes,
                      LittleEndian(MaskedCrc32c(bytes), 4));
}

absl::StatusOr<std::vector<std::string>> UnframeRecords(absl::string_view content) {
  std::vector<std::string> records;
  while (!content.empty()) {
    const auto damaged = [&](const char* what) {
      return absl::DataLossError(absl::StrCat("record ", records.size(), " ", what));
    };
    if (content.size() < kHeaderBytes + kFooterBytes) return damaged("is cut off");
    const absl::string_view length_bytes = content.substr(0, 8);
    if (FromLittleEndian(content.substr(8, 4)) != MaskedCrc32c(length_bytes)) {
      return damaged("has a wrong checksum of its length");
    }
    const uint64_t length = FromLittleEndian(length_bytes);
    if (length > content.size() - kHeaderBytes - kFooterBytes) return damaged("is cut off");
    const absl::string_view bytes = content.substr(kHeaderBytes, length);
    if (FromLittleEndian(content.substr(kHeaderBytes + length, 4)) != MaskedCrc32c(bytes)) {
      return damaged("has a wrong checksum");
    }
    records.emplace_back(bytes);
    content.remove_prefix(kHeaderBytes + length + kFooterBytes);
  }
  return records;
}

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
