// Streams, events, host functions and captures.
#include "tools/ptx_machine/fake_driver/driver.hpp"

using namespace ptx::fake;

namespace {

// Waiting for something that is being captured ends the capture.
Result not_while_capturing(Driver& driver, const Stream& stream) {
  if (stream.capture == nullptr && !(stream.legacy && driver.streams->any_capture()))
    return kSuccess;
  driver.streams->invalidate_captures();
  return stream.legacy ? kCaptureImplicit : kCaptureUnsupported;
}

}  // namespace

STEPFUSE_FAKE_API cuStreamCreate(Stream** stream, unsigned flags) {
  STEPFUSE_FAKE_CALL(context);
  if (flags > kStreamNonBlocking) return kInvalidValue;
  *stream = driver.streams->create(flags, 0);
  return kSuccess;
}

STEPFUSE_FAKE_API cuStreamCreateWithPriority(Stream** stream, unsigned flags, int priority) {
  STEPFUSE_FAKE_CALL(context);
  if (flags > kStreamNonBlocking) return kInvalidValue;
  *stream = driver.streams->create(flags, priority);
  return kSuccess;
}

STEPFUSE_FAKE_API cuStreamDestroy_v2(Stream* stream) {
  STEPFUSE_FAKE_CALL(context);
  return driver.streams->destroy(stream) ? kSuccess : kInvalidHandle;
}

STEPFUSE_FAKE_API cuStreamSynchronize(void* handle) {
  STEPFUSE_FAKE_CALL(context);
  Stream* stream = driver.streams->find(handle);
  if (stream == nullptr) return kInvalidHandle;
  Result result = not_while_capturing(driver, *stream);
  if (result != kSuccess) return result;
  driver.streams->finish(*stream);
  return driver.faults.lost();
}

STEPFUSE_FAKE_API cuStreamQuery(void* handle) {
  STEPFUSE_FAKE_CALL(context);
  Stream* stream = driver.streams->find(handle);
  if (stream == nullptr) return kInvalidHandle;
  Result result = not_while_capturing(driver, *stream);
  if (result != kSuccess) return result;
  bool busy = !stream->pending.empty();
  driver.streams->step(*stream);
  if (driver.faults.lost() != kSuccess) return driver.faults.lost();
  return busy ? kNotReady : kSuccess;
}

STEPFUSE_FAKE_API cuStreamGetFlags(void* handle, unsigned* flags) {
  STEPFUSE_FAKE_CALL(context);
  Stream* stream = driver.streams->find(handle);
  if (stream == nullptr) return kInvalidHandle;
  *flags = stream->flags;
  return kSuccess;
}

STEPFUSE_FAKE_API cuStreamGetPriority(void* handle, int* priority) {
  STEPFUSE_FAKE_CALL(context);
  Stream* stream = driver.streams->find(handle);
  if (stream == nullptr) return kInvalidHandle;
  *priority = stream->priority;
  return kSuccess;
}

STEPFUSE_FAKE_API cuStreamGetCtx(void* handle, Context** context) {
  STEPFUSE_FAKE_CALL(context);
  if (driver.streams->find(handle) == nullptr) return kInvalidHandle;
  *context = driver.current();
  return kSuccess;
}

STEPFUSE_FAKE_API cuStreamWaitEvent(void* handle, Event* event, unsigned) {
  STEPFUSE_FAKE_CALL(context);
  Stream* stream = driver.streams->find(handle);
  if (stream == nullptr || !driver.streams->is_event(event)) return kInvalidHandle;
  return driver.streams->wait(*stream, *event);
}

STEPFUSE_FAKE_API cuLaunchHostFunc(void* handle, void (*function)(void*), void* data) {
  STEPFUSE_FAKE_CALL(context);
  Stream* stream = driver.streams->find(handle);
  if (stream == nullptr) return kInvalidHandle;
  driver.streams->enqueue(*stream, kHostNode, [function, data] { function(data); });
  return kSuccess;
}

STEPFUSE_FAKE_API cuEventCreate(Event** event, unsigned flags) {
  STEPFUSE_FAKE_CALL(context);
  *event = driver.streams->create_event(flags);
  return kSuccess;
}

STEPFUSE_FAKE_API cuEventDestroy_v2(Event* event) {
  STEPFUSE_FAKE_CALL(context);
  return driver.streams->destroy_event(event) ? kSuccess : kInvalidHandle;
}

STEPFUSE_FAKE_API cuEventRecord(Event* event, void* handle) {
  STEPFUSE_FAKE_CALL(context);
  Stream* stream = driver.streams->find(handle);
  if (stream == nullptr || !driver.streams->is_event(event)) return kInvalidHandle;
  driver.streams->record(*event, *stream);
  return driver.faults.lost();
}

STEPFUSE_FAKE_API cuEventRecordWithFlags(Event* event, void* handle, unsigned) {
  return cuEventRecord(event, handle);
}

STEPFUSE_FAKE_API cuEventQuery(Event* event) {
  STEPFUSE_FAKE_CALL(context);
  if (!driver.streams->is_event(event)) return kInvalidHandle;
  if (event->in_capture) return kCapturedEvent;
  bool was_done = driver.streams->done(event->point);
  if (!was_done) driver.streams->step(*event->point.stream);
  if (driver.faults.lost() != kSuccess) return driver.faults.lost();
  return was_done ? kSuccess : kNotReady;
}

STEPFUSE_FAKE_API cuEventSynchronize(Event* event) {
  STEPFUSE_FAKE_CALL(context);
  if (!driver.streams->is_event(event)) return kInvalidHandle;
  if (event->in_capture) return kCapturedEvent;
  driver.streams->finish(event->point);
  return driver.faults.lost();
}

STEPFUSE_FAKE_API cuEventElapsedTime_v2(float* milliseconds, Event* start, Event* end) {
  STEPFUSE_FAKE_CALL(context);
  if (!driver.streams->is_event(start) || !driver.streams->is_event(end)) return kInvalidHandle;
  if (((start->flags | end->flags) & kEventDisableTiming) != 0) return kInvalidHandle;
  if (!driver.streams->done(start->point) || !driver.streams->done(end->point)) return kNotReady;
  *milliseconds = static_cast<float>(end->milliseconds - start->milliseconds);
  return kSuccess;
}

STEPFUSE_FAKE_API cuEventElapsedTime(float* milliseconds, Event* start, Event* end) {
  return cuEventElapsedTime_v2(milliseconds, start, end);
}

STEPFUSE_FAKE_API cuStreamBeginCapture_v2(void* handle, int mode) {
  STEPFUSE_FAKE_CALL(context);
  Stream* stream = driver.streams->find(handle);
  return stream == nullptr ? kInvalidHandle : driver.streams->begin_capture(*stream, mode);
}

STEPFUSE_FAKE_API cuStreamEndCapture(void* handle, Graph** graph) {
  STEPFUSE_FAKE_CALL(context);
  *graph = nullptr;
  Stream* stream = driver.streams->find(handle);
  if (stream == nullptr) return kInvalidHandle;
  std::unique_ptr<Graph> made;
  Result result = driver.streams->end_capture(*stream, &made);
  if (result != kSuccess) return result;
  *graph = made.release();
  driver.graphs.insert(*graph);
  return kSuccess;
}

STEPFUSE_FAKE_API cuStreamIsCapturing(void* handle, int* status) {
  STEPFUSE_FAKE_CALL(context);
  const Stream* stream = driver.streams->find(handle);
  if (stream == nullptr) return kInvalidHandle;
  if (stream->legacy && driver.streams->any_capture()) return kCaptureImplicit;
  *status = stream->capture == nullptr ? 0 : stream->capture->invalidated ? 2 : 1;
  return kSuccess;
}

STEPFUSE_FAKE_API cuStreamGetCaptureInfo_v2(void* handle, int* status, std::uint64_t* id,
                                            Graph** graph, void*** dependencies,
                                            std::size_t* count) {
  STEPFUSE_FAKE_CALL(context);
  const Stream* stream = driver.streams->find(handle);
  if (stream == nullptr) return kInvalidHandle;
  if (stream->legacy && driver.streams->any_capture()) return kCaptureImplicit;
  *status = stream->capture == nullptr ? 0 : stream->capture->invalidated ? 2 : 1;
  if (*status == 0) return kSuccess;
  if (id != nullptr) *id = stream->capture->id;
  if (graph != nullptr) *graph = stream->capture->graph.get();
  if (dependencies != nullptr) *dependencies = nullptr;
  if (count != nullptr) *count = stream->captured.size();
  return kSuccess;
}

STEPFUSE_FAKE_API cuStreamGetCaptureInfo_v3(void* handle, int* status, std::uint64_t* id,
                                            Graph** graph, void*** dependencies, void** edges,
                                            std::size_t* count) {
  if (edges != nullptr) *edges = nullptr;
  return cuStreamGetCaptureInfo_v2(handle, status, id, graph, dependencies, count);
}

STEPFUSE_FAKE_API cuThreadExchangeStreamCaptureMode(int* mode) {
  STEPFUSE_FAKE_CALL(initialised);
  thread_local int own_mode = 0;
  std::swap(*mode, own_mode);
  return kSuccess;
}
