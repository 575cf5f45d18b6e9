"""Which handler serves which request; requests that are missing here are not served yet."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from windsprite_protocol.model import cluster as cluster_model
from windsprite_protocol.model import groups as groups_model
from windsprite_protocol.model import messages as messages_model
from windsprite_protocol.model import offsets as offsets_model
from windsprite_protocol.model import sessions as sessions_model
from windsprite_protocol.model import streams as streams_model
from windsprite_protocol.model import system as system_model
from windsprite_protocol.model import tokens as tokens_model
from windsprite_protocol.model import topics as topics_model
from windsprite_protocol.model import users as users_model
from windsprite_server.handlers import (
    groups,
    messages,
    offsets,
    routing,
    sessions,
    streams,
    system,
    tokens,
    topics,
    users,
)
from windsprite_server.handlers.dispatcher import Handler

HANDLERS: Final[Mapping[type[Any], Handler]] = MappingProxyType(
    {
        system_model.Ping: system.ping,
        system_model.GetStats: system.get_stats,
        system_model.GetSnapshot: system.get_snapshot,
        system_model.GetMe: system.get_me,
        system_model.GetClient: system.get_client,
        system_model.GetClients: system.get_clients,
        system_model.DescribeOptions: system.describe_options,
        cluster_model.GetClusterMetadata: system.get_cluster_metadata,
        cluster_model.AttachSession: routing.attach_session,
        sessions_model.Logout: sessions.logout,
        users_model.GetUser: users.get_user,
        users_model.GetUsers: users.get_users,
        users_model.CreateUser: users.create_user,
        users_model.UpdateUser: users.update_user,
        users_model.DeleteUser: users.delete_user,
        users_model.UpdatePermissions: users.update_permissions,
        users_model.ChangePassword: users.change_password,
        tokens_model.GetTokens: tokens.get_tokens,
        tokens_model.CreateToken: tokens.create_token,
        tokens_model.DeleteToken: tokens.delete_token,
        streams_model.GetStream: streams.get_stream,
        streams_model.GetStreams: streams.get_streams,
        streams_model.CreateStream: streams.create_stream,
        streams_model.UpdateStream: streams.update_stream,
        streams_model.DeleteStream: streams.delete_stream,
        streams_model.PurgeStream: streams.purge_stream,
        topics_model.GetTopic: topics.get_topic,
        topics_model.GetTopics: topics.get_topics,
        topics_model.CreateTopic: topics.create_topic,
        topics_model.UpdateTopic: topics.update_topic,
        topics_model.DeleteTopic: topics.delete_topic,
        topics_model.PurgeTopic: topics.purge_topic,
        topics_model.CreatePartitions: topics.create_partitions,
        topics_model.DeletePartitions: topics.delete_partitions,
        topics_model.DeleteSegments: topics.delete_segments,
        groups_model.GetConsumerGroup: groups.get_group,
        groups_model.GetConsumerGroups: groups.get_groups,
        groups_model.CreateConsumerGroup: groups.create_group,
        groups_model.DeleteConsumerGroup: groups.delete_group,
        groups_model.JoinConsumerGroup: groups.join_group,
        groups_model.LeaveConsumerGroup: groups.leave_group,
        groups_model.SyncConsumerGroup: groups.sync_group,
        messages_model.SendMessages: messages.send_messages,
        messages_model.PollMessages: messages.poll_messages,
        messages_model.GetPollRouting: routing.get_poll_routing,
        messages_model.PollPrimary: routing.poll_primary,
        offsets_model.GetConsumerOffset: offsets.get_consumer_offset,
        offsets_model.GetConsumerOffsetRouting: routing.get_offset_routing,
        offsets_model.StoreConsumerOffset: offsets.store_consumer_offset,
        offsets_model.DeleteConsumerOffset: offsets.delete_consumer_offset,
    }
)
