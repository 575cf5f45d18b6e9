"""How programs use the SDK; never run, but checked by mypy as a user's program would be."""

from datetime import timedelta
from typing import assert_type
from uuid import UUID

import windsprite


async def quick_start() -> None:
    async with windsprite.connect("iggy://iggy:iggy@127.0.0.1:8090,127.0.0.1:8091") as client:
        assert_type(client, windsprite.Client)
        await client.create_stream("orders")
        await client.create_topic("orders", "events", partitions=3)
        await client.send("orders", "events", [b"one", b"two"], key=b"k")
        batch = await client.poll(
            "orders", "events", partition=0, start=windsprite.From.first(), count=100
        )
        assert_type(batch, windsprite.Batch)
        for message in batch:
            assert_type(message, windsprite.ReceivedMessage)
            assert_type(message.payload, bytes)
            assert_type(message.offset, int)
            assert_type(message.headers, dict[windsprite.PythonValue, windsprite.PythonValue])


async def without_a_context_manager() -> None:
    client = await windsprite.connect(
        ["10.0.0.1", "10.0.0.2:8091"],
        token="secret",
        request_timeout=5,
        send_retry="at-least-once",
    )
    try:
        await client.ping(timeout=1)
        assert_type(client.server, str | None)
    finally:
        await client.close()


async def all_there_is_to_streams_and_topics(client: windsprite.Client) -> None:
    created = await client.create_stream("orders")
    assert_type(created, windsprite.StreamDetails)
    stream = await client.get_stream(created.stream.id)
    assert_type(stream, windsprite.StreamDetails | None)
    assert_type(await client.get_streams(), tuple[windsprite.Stream, ...])
    await client.update_stream("orders", "old-orders")
    topic = await client.create_topic(
        0,
        "events",
        10,
        compression="gzip",
        message_expiry=timedelta(days=7),
        max_topic_size="10 GiB",
        segment_size=128 << 20,
        durability="persisted",
        consumer_offset_durability="replicated",
        options={"messages_required_to_save": 100},
    )
    assert_type(topic, windsprite.TopicDetails)
    assert_type(await client.get_topic("orders", 0), windsprite.TopicDetails | None)
    assert_type(await client.get_topics("orders"), tuple[windsprite.Topic, ...])
    await client.update_topic("orders", "events", "events", message_expiry="1h 30m")
    await client.create_partitions("orders", "events", 2)
    await client.delete_partitions("orders", "events", 1)
    await client.delete_segments("orders", "events", partition=0, count=1)
    await client.purge_topic("orders", "events")
    await client.delete_topic("orders", "events")
    await client.purge_stream("orders")
    await client.delete_stream("orders")


async def users_and_tokens(client: windsprite.Client) -> None:
    reader = windsprite.Permissions(
        windsprite.GlobalPermissions(read_servers=True),
        (
            windsprite.StreamPermissions(
                3,
                read_stream=True,
                topics=(windsprite.TopicPermissions(7, send_messages=True),),
            ),
        ),
    )
    created = await client.create_user(
        "alice", "secret", status=windsprite.UserStatus.INACTIVE, permissions=reader
    )
    assert_type(created, windsprite.UserDetails)
    assert_type(created.permissions, windsprite.Permissions | None)
    assert_type(await client.get_user(created.user.id), windsprite.UserDetails | None)
    assert_type(await client.get_users(), tuple[windsprite.User, ...])
    await client.update_user("alice", username="alicia", status=windsprite.UserStatus.ACTIVE)
    await client.update_permissions("alicia", None)
    await client.change_password("alicia", "secret", "another")
    await client.delete_user("alicia")
    token = await client.create_token("ci", expiry=timedelta(days=30))
    assert_type(token, windsprite.Token)
    await client.login_with_token(token.token)
    assert_type(await client.get_tokens(), tuple[windsprite.TokenInfo, ...])
    await client.delete_token("ci")


async def messages_and_offsets(client: windsprite.Client) -> None:
    confirmation = await client.send(
        "orders",
        "events",
        [windsprite.Message("text", headers={"source": "shop", "retries": 3}), b"bytes", "text"],
        partition=1,
        headers={"all": True},
        retry="at-least-once",
    )
    assert_type(confirmation, windsprite.Confirmation | None)
    batch = await client.poll("orders", 0, start=windsprite.From.offset(5), consumer="reader")
    assert_type(batch.next_offset, int | None)
    assert_type(batch[0], windsprite.ReceivedMessage)
    await client.store_consumer_offset("orders", 0, 7, partition=1, consumer="reader")
    stored = await client.get_consumer_offset("orders", 0, partition=1, consumer="reader")
    assert_type(stored, windsprite.ConsumerOffset | None)
    await client.delete_consumer_offset("orders", 0, partition=1, consumer="reader")


async def consumer_groups(client: windsprite.Client) -> None:
    created = await client.create_consumer_group("orders", "events", "billing")
    assert_type(created, windsprite.ConsumerGroupDetails)
    group = await client.get_consumer_group("orders", "events", "billing")
    assert_type(group, windsprite.ConsumerGroupDetails | None)
    for member in created.members:
        assert_type(member, windsprite.GroupMember)
        assert_type(member.partitions, tuple[int, ...])
    groups = await client.get_consumer_groups("orders", "events")
    assert_type(groups, tuple[windsprite.ConsumerGroup, ...])
    await client.join_consumer_group("orders", "events", "billing")
    assignment = await client.sync_consumer_group("orders", "events", "billing")
    assert_type(assignment, windsprite.GroupAssignment | None)
    batch = await client.poll("orders", "events", group="billing", timeout=1)
    assert_type(batch.partition, int)
    try:
        await client.store_consumer_offset(
            "orders", "events", batch[-1].offset, partition=batch.partition, group="billing"
        )
    except windsprite.PartitionNotOwned:
        await client.delete_consumer_offset("orders", "events", partition=0, group="billing")
    memberships = (await client.me()).memberships
    assert_type(memberships, tuple[windsprite.GroupMembership, ...])
    await client.leave_consumer_group("orders", "events", "billing")
    await client.delete_consumer_group("orders", "events", "billing")


async def the_cluster(client: windsprite.Client) -> None:
    metadata = await client.get_cluster_metadata()
    assert_type(metadata.cluster_id, UUID | None)
    assert_type(metadata.leader_epoch, int | None)
    assert_type(metadata.leader, windsprite.ClusterNode | None)
    for node in metadata.nodes:
        zone = node.identity.zone if node.identity else ""
        assert_type(zone, str)
    assert_type(await client.me(), windsprite.ClientDetails)
    assert_type(await client.stats(), windsprite.Stats)
    assert_type(await client.describe_options("user"), tuple[windsprite.OptionSpec, ...])
    assert_type(await client.snapshot("server_logs", compression="stored", timeout=5), bytes)


async def errors(client: windsprite.Client) -> None:
    try:
        await client.send("orders", "events", [b"x"])
    except windsprite.OutcomeUnknown as error:
        assert_type(error.code, windsprite.ErrorCode | None)
    except windsprite.ConnectionFailed as error:
        assert_type(error.attempts, tuple[tuple[str, str], ...])
    except windsprite.Unavailable:
        pass
    except windsprite.WindspriteError as error:
        assert_type(error.sentence, str)
        assert_type(error.hint, str)


async def producing(client: windsprite.Client) -> None:
    def failed(batch: windsprite.FailedBatch) -> None:
        assert_type(batch.messages, tuple[windsprite.Message, ...])

    async with client.producer(
        "orders",
        "events",
        create=windsprite.NewTopic(partitions=3, message_expiry=timedelta(days=7)),
        partitioner=lambda message, key, partitions: len(message.payload) % partitions,
        headers={"source": "shop"},
        when_full=0.5,
        retry="at-least-once",
        encryption=windsprite.Encryptor(bytes(32)),
        on_error=failed,
    ) as producer:
        assert_type(producer, windsprite.Producer)
        delivery: windsprite.Delivery = await producer.send("text", key=b"k")
        assert_type(await delivery, windsprite.Delivered)
        assert_type(await producer.send_and_wait(b"bytes", partition=1), windsprite.Delivered)
        many = await producer.send_many(f"{number}" for number in range(3))
        assert_type(many, windsprite.Deliveries)
        first: windsprite.Delivery = many[0]
        assert_type(await first, windsprite.Delivered)
        await many.wait()
        await producer.send_many([b"one", "two", windsprite.Message(b"three")])
        await producer.flush()
