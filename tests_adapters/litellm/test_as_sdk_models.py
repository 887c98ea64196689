"""What is asked of the SDK models, and holds for LiteLLM's too."""

from tests.agent.models.test_openai import (  # noqa: F401 - collected here once more
    test_a_refusal_is_the_text_and_the_stop_reason,
    test_a_refusal_that_breaks_off_is_no_answer,
)
from tests.agent.models.test_sdk_answers import (  # noqa: F401
    test_a_provider_that_is_busy_is_asked_again_as_it_says,
    test_a_tool_call_has_its_id_its_name_and_its_arguments,
    test_an_answer_may_be_empty,
    test_arguments_that_are_no_object_are_kept_as_they_were_written,
    test_no_arguments_at_all_are_an_empty_object,
    test_parallel_tool_calls_stay_apart_and_in_order,
    test_text_may_come_before_tool_calls,
    test_the_params_of_a_model_are_there_for_requests_to_take,
    test_the_text_of_a_stream_comes_in_pieces_that_add_up,
    test_what_goes_into_the_body_can_be_said_the_sdks_way_too,
)
from tests.agent.models.test_sdk_failures import (  # noqa: F401
    failure,
    test_a_base_url_that_is_none_is_a_failure_too,
    test_a_broken_stream_tells_the_usage_that_is_known,
    test_a_cancellation_gets_through_and_hangs_up,
    test_a_failure_is_told_of_the_model_that_was_asked_for,
    test_a_garbled_stream_is_no_answer,
    test_a_key_that_no_header_can_hold_is_not_told,
    test_a_model_goes_on_after_a_failure,
    test_a_provider_that_is_not_there_is_unreachable,
    test_a_request_that_cannot_be_written_is_an_error,
    test_a_status_has_its_kind_and_its_advice,
    test_a_stream_that_nobody_reads_on_is_hung_up,
    test_a_stream_without_its_end_is_no_answer,
    test_an_answer_that_breaks_off_is_a_failure_of_the_connection,
    test_an_answer_that_does_not_come_is_a_timeout,
    test_an_error_page_of_something_in_between_is_told_in_short,
    test_garbage_is_no_answer,
    test_no_key_is_told_although_the_provider_tells_it,
    test_no_key_of_the_environment_is_told,
    test_what_may_pass_is_tried_again_before_it_is_a_failure,
    test_what_will_not_pass_is_not_tried_again,
)
